"""Images that are set aside for an arm: which, when it sees them, and that nothing else does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from pilotstudy.errors import InputError
from pilotstudy.method.held_out import HeldOut
from pilotstudy.trial import checkpoint
from pilotstudy.trial.images import TrialImages
from pilotstudy.trial.predicting import predict
from pilotstudy.trial.trainer import Trainer
from tests.support.cuda_trials import CUDA, trial_of
from tests.support.pretended import pretended
from tests.support.squares import make_data, make_trial

CPU = torch.device("cpu")
SMALL = {"dgm_width": 8, "z": 2}


def trainer_of(data, arm="pilot-held-out", seed=0, *, part=None, training=None, **settings) -> Trainer:
    """`part` and `training`: changes of the trial's data and recipe."""
    trial = make_trial(arm, seed, **SMALL, **settings)
    changed = {"data": trial.data.model_copy(update=part or {})}
    changed["training"] = trial.training.model_copy(update=training or {})
    return Trainer(trial.model_copy(update=changed), data, CPU, 1)


def as_bytes(x: torch.Tensor) -> list[bytes]:
    """Each image by its pixels."""
    return list(map(bytes, (255 * x).round().to(torch.uint8).numpy()))


@pytest.mark.parametrize("part", [{}, {"train_size": 120}, {"train_size": 120, "train_subset": "by-seed"}])
def test_a_share_of_each_class_is_set_aside_by_the_seed(part, squares):
    trainers = [trainer_of(squares, seed=seed, part=part, held_out=0.1) for seed in (0, 0, 1)]
    vanilla = Trainer(make_trial("vanilla").model_copy(update={"data": trainers[0].trial.data}), squares, CPU, 1)
    images, each_class = [trainer.images for trainer in trainers], len(vanilla.images.train_rows) // 30
    for each in images:
        assert np.bincount(squares.train_labels[each.held_out_rows]).tolist() == [each_class] * 3
        assert not set(each.held_out_rows.tolist()) & set(each.validation_rows.tolist())
    together = torch.cat([images[0].train_rows, images[0].held_out_rows]).sort().values
    assert torch.equal(together, vanilla.images.train_rows)
    assert torch.equal(images[0].held_out_rows, images[1].held_out_rows)
    assert torch.equal(images[0].validation_rows, vanilla.images.validation_rows)
    assert not torch.equal(images[0].held_out_rows, images[2].held_out_rows)
    assert len(vanilla.images.held_out_rows) == 0


def test_the_classifier_sees_none_of_them_and_the_arm_sees_them_in_turn_as_they_are(squares, monkeypatch):
    seen, see = [], HeldOut.see_held_out

    def watched(self, x):
        seen.append(x)
        see(self, x)

    monkeypatch.setattr(HeldOut, "see_held_out", watched)
    trainer = trainer_of(squares, held_out=0.25, training={"augmentation": "flips", "batch_size": 20})
    images = trainer.images
    apart = as_bytes(images.inputs(images.pixels[images.held_out_rows]))
    orders = []
    for trainer.epoch in range(2):
        seen.clear()
        trained = torch.cat([x for x, _ in trainer.batches()])
        flipped = trained.flip(-1)
        assert not set(apart) & {*as_bytes(trained), *as_bytes(flipped)}
        assert len(trained) == 135
        assert [len(x) for x in seen] == [20] * 7  # two of 45 in a pass
        for first, second in zip(seen[:6:2], seen[1:6:2], strict=True):
            shown = as_bytes(torch.cat([first, second]))
            assert set(shown) <= set(apart)
            assert len(set(shown)) == 40
        orders.append(torch.cat(seen))
    assert not torch.equal(*orders)
    rest = [torch.cat([x for x, _ in images.in_order(50)]), torch.cat(list(images.all_inputs(50)))]
    assert not any(set(apart) & set(as_bytes(x)) for x in rest)


def test_what_is_drawn_aside_the_classifier_does_not_depend_on_them(squares, monkeypatch):
    """A whole epoch with other held-out images: another DGM, and where its draws are held fixed, the same network."""

    def ones(self, a, mask, shares=None):
        units = [self.dgm.slices[part.layer] for part in mask.parts]
        return [torch.ones_like(mask.select(a)[part.rows, u]) for part, u in zip(mask.parts, units, strict=True)]

    monkeypatch.setattr(HeldOut, "drawn", ones)
    networks, dgms = [], []
    for other in False, True:
        data = squares
        if other:
            pixels = squares.train_images.copy()
            rows = trainer_of(squares).images.held_out_rows
            pixels[rows] = 255 - pixels[rows]
            data = replace(squares, train_images=pixels)
        trainer = trainer_of(data, normalise=False, variance_in="raw")
        trainer.train_epoch()
        networks.append(parameters_to_vector(trainer.regulariser.network.parameters()))
        dgms.append(parameters_to_vector(trainer.regulariser.dgm.parameters()))
    assert torch.equal(*networks)
    assert not torch.equal(*dgms)


COMPOSED = ["pilot-held-out+dropout", "pilot-held-out+data-aug", "pilot-held-out+batchnorm", "pilot-held-out+laplace"]


@pytest.mark.parametrize("arm", ["pilot-held-out", "passes+pilot-held-out", *COMPOSED])
def test_it_composes_and_resumes_to_the_bit(arm, squares, tmp_path):
    part = {"train_size": 90, "train_subset": "by-seed"}
    whole = trainer_of(squares, arm, part=part)
    whole.train_epoch()
    checkpoint.save(tmp_path / "c.pt", whole.state())
    whole.train_epoch()
    torch.rand(3)
    resumed = trainer_of(squares, arm, part=part)
    resumed.restore(checkpoint.load(tmp_path / "c.pt"))
    resumed.train_epoch()
    first, second = predict(whole), predict(resumed)
    for key, pair in first.items():
        assert np.isfinite(pair.test.logits).all()
        assert np.array_equal(pair.test.logits, second[key].test.logits)


def test_too_few_images_are_told(squares):
    data = make_trial().data.model_copy(update={"train_size": 3})
    with pytest.raises(InputError, match="3 training images are too few to set some aside"):
        TrialImages(data, squares, CPU).set_aside(0.9, 0)


def test_they_go_to_the_device_once_an_epoch():
    with pretended() as gpu:
        trainer = Trainer(trial_of("pilot-held-out"), make_data(120), CUDA, 1)
        gpu.waits.clear()
        trainer.train_epoch()
    assert sum(gpu.waits.values()) == 5, gpu.waits  # one more than of another arm
