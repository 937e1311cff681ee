"""Images of more than 8 bits are scaled by their file's depth, not cut."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pilotstudy.data.decoding import decode, decode_all, scaled
from pilotstudy.errors import DataError

RAMP = np.linspace(0, 65535, 36).astype(np.uint16).reshape(6, 6)
NEAREST = np.round(RAMP * 255.0 / 65535).astype(np.uint8)


def saved(pixels: np.ndarray, kind: str = "TIFF", **tags: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **tags)
    return buffer.getvalue()


def tiff(strip: bytes, bits: int, sample_format: int = 1, order: str = "<") -> bytes:
    """A row of grey pixels of kinds that Pillow reads and does not write."""
    tags = {256: len(strip) * 8 // bits, 257: 1, 258: bits, 259: 1, 262: 1, 273: 8, 277: 1, 278: 1, 279: len(strip)}
    entries = [struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in (tags | {339: sample_format}).items()]
    head = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "I", 8 + len(strip))
    return head + strip + struct.pack(order + "H", len(entries)) + b"".join(entries) + bytes(4)


def pgm(pixels: np.ndarray, most: int) -> bytes:
    return b"P5 %d %d %d\n" % (*pixels.shape, most) + pixels.astype(">u2").tobytes()


@given(st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 255))
def test_the_nearest_of_256_values(one, other, eight):
    low, high = scaled(np.array(sorted([one, other]), np.uint16))
    assert low <= high
    assert abs(int(low) - min(one, other) * 255 / 65535) < 0.5
    assert scaled(np.array([eight * 257], np.uint16))[0] == eight


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG2000"])
def test_sixteen_bits_of_grey(kind):
    assert np.array_equal(decode(saved(RAMP, kind), "x", None), NEAREST[None])


def test_mode_i_is_sixteen_bits_where_the_file_says_so():
    content = pgm(RAMP, 65535)
    assert Image.open(io.BytesIO(content)).mode == "I"
    assert np.array_equal(decode(content, "x", None), NEAREST[None])


def test_a_dark_image_stays_dark_and_eight_bits_stay_as_they_are():
    """The depth decides, not how bright one image is: all of a data set are scaled alike."""
    dark = np.full((4, 4), 200, np.uint16)
    for content in saved(dark, "PNG"), saved(dark), pgm(dark, 65535):
        assert decode(content, "x", None).max() == 1
    assert decode(saved(dark.astype(np.uint8)), "x", None).max() == 200


def test_other_kinds_of_tiff():
    assert decode(tiff(bytes([0xFF, 0xF8, 0x00]), 12), "x", None).tolist() == [[[255, 128]]]  # 4095 and 2048 of 4095
    assert decode(tiff(struct.pack(">HH", 65535, 257 * 9), 16, order=">"), "x", None).tolist() == [[[255, 9]]]
    for content in tiff(struct.pack("<hh", -5, 5), 16, sample_format=2), tiff(struct.pack("<II", 5, 2**31), 32):
        with pytest.raises(DataError, match=r"(16|32)-bit pixels that cannot be scaled.*unsigned"):
            decode(content, "x", None)


def test_white_is_zero():
    assert np.array_equal(decode(saved(RAMP, tiffinfo={262: 0}), "x", None), 255 - NEAREST[None])


def test_sixteen_bits_beside_colour_and_resized():
    colour = saved(np.full((6, 6, 3), 9, np.uint8), "PNG")
    images = decode_all([saved(RAMP), colour], ["a", "b"], None, "x")
    assert np.array_equal(images[0], np.repeat(NEAREST[None], 3, axis=0))
    assert decode(saved(np.full((6, 6), 65535, np.uint16)), "x", 3).tolist() == [[[255] * 3] * 3]


@pytest.mark.parametrize(
    ("pixels", "message"), [(RAMP.astype(np.float32), "floating-point"), (RAMP.astype(np.int32), "32-bit pixels")]
)
def test_depths_without_a_range_are_refused(pixels, message):
    with pytest.raises(DataError, match=rf"^x has {message}.*save it with 8 or 16 bits[^\n]*$"):
        decode(saved(pixels), "x", None)


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "holds no image"), (None, "holds no image"), (b"?", "no known")]
)
def test_what_is_no_image_is_told_without_where_it_lies_in_memory(content, message):
    with pytest.raises(DataError, match=message) as told:
        decode(content, "x", None)
    assert "BytesIO" not in str(told.value)
