"""Corruptions, each against somebody else's version of it."""

import colorsys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from pilotstudy.data.corruptions import CORRUPTIONS, STRENGTHS, corrupt
from pilotstudy.data.sources import embedded

GREY = embedded().test.images[:300]
TINTS = np.random.default_rng(0).uniform(0.4, 1, (100, 3, 1, 1))
COLOUR = (GREY[:100] * TINTS).astype(np.uint8)
EVERY = [(name, strength) for name in CORRUPTIONS for strength in STRENGTHS]


def all_of(images: np.ndarray, name: str, strength: int) -> np.ndarray:
    return corrupt(images, np.arange(len(images)), name, strength)


@pytest.mark.parametrize("images", [GREY, COLOUR, COLOUR[:, :, :, 4:]], ids=["grey", "colour", "oblong"])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_images_keep_shape_and_kind_and_change_more_with_strength(images, name):
    changes = []
    for strength in STRENGTHS:
        changed = all_of(images, name, strength)
        assert (changed.shape, changed.dtype) == (images.shape, np.uint8)
        changes.append(np.square(changed.astype(float) - images).mean())
    assert changes[0] > 0
    assert changes == sorted(changes)
    assert changes[-1] > 1.5 * changes[0]


@given(rows=st.lists(st.integers(0, 99), min_size=1, max_size=8, unique=True), every=st.sampled_from(EVERY))
@settings(max_examples=30, deadline=None)
def test_an_image_is_the_same_in_any_subset_and_order(rows, every):
    assert np.array_equal(corrupt(COLOUR, np.array(rows), *every), all_of(COLOUR, *every)[rows])


def test_noise_has_its_deviation_and_each_image_its_own():
    flat = np.full((40, 3, 32, 32), 128, np.uint8)
    changed = all_of(flat, "noise", 5).astype(float) / 255
    assert changed.std() == pytest.approx(0.10, rel=0.01)
    assert changed.mean() == pytest.approx(128 / 255, abs=0.001)
    assert abs(np.corrcoef(changed[0].ravel(), changed[1].ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("strength", STRENGTHS)
def test_blur_is_scipys_gaussian_filter(strength):
    deviation = CORRUPTIONS["blur"][1][strength - 1] * 28 / 32
    reach = int(np.ceil(4 * deviation))
    expected = ndimage.gaussian_filter(
        COLOUR.astype(float), (0, 0, deviation, deviation), mode="nearest", radius=(0, 0, reach, reach)
    )
    assert np.abs(all_of(COLOUR, "blur", strength) - expected).max() <= 0.51


@pytest.mark.parametrize("strength", STRENGTHS)
def test_pixelate_is_pillows_box_filter(strength):
    small = int(28 * CORRUPTIONS["pixelate"][1][strength - 1])
    for image, changed in zip(COLOUR[:5], all_of(COLOUR, "pixelate", strength), strict=False):
        for channel, ours in zip(image, changed, strict=True):
            picture = Image.fromarray(channel.astype(np.float32))  # floats, which Pillow does not round in between
            for size in small, 28:
                picture = picture.resize((size, size), Image.Resampling.BOX)
            assert np.abs(ours - np.asarray(picture)).max() <= 0.51


def test_brightness_is_the_value_of_hsv():
    changed = all_of(COLOUR, "brightness", 3)
    for pixel, ours in zip(COLOUR[0].reshape(3, -1).T, changed[0].reshape(3, -1).T, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixel / 255))
        theirs = np.array(colorsys.hsv_to_rgb(hue, saturation, min(value + 0.15, 1)))
        assert np.abs(ours - 255 * theirs).max() <= 0.51


def test_contrast_keeps_each_channels_mean():
    changed = all_of(COLOUR, "contrast", 4).astype(float)
    means = COLOUR.mean((2, 3))
    assert np.abs(changed.mean((2, 3)) - means).max() < 0.5
    assert np.abs(changed.std((2, 3)) - 0.3 * COLOUR.std((2, 3))).max() < 0.5


def test_jpeg_is_what_pillow_writes_and_reads(tmp_path):
    changed = all_of(COLOUR, "jpeg", 2)
    path = tmp_path / "image.jpg"
    Image.fromarray(COLOUR[3].transpose(1, 2, 0)).save(path, quality=65)
    assert np.array_equal(np.asarray(Image.open(path)).transpose(2, 0, 1), changed[3])
