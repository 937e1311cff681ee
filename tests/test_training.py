import json
import math
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from conftest import make_data, make_trial

from pilotstudy import checkpoint, metrics, tables
from pilotstudy.arms import arms
from pilotstudy.errors import CheckpointError, DivergedError, InputError, StorageError
from pilotstudy.evaluation import evaluate
from pilotstudy.files import TrialFiles
from pilotstudy.training import Scaling, Trainer
from pilotstudy.trial import run

# Small where an arm has a size, and annealed where it can be, so that a resumed trial must know its progress.
SMALL = {
    name: {key: value for key, value in settings.items() if key in arm.settings.model_fields}
    for name, arm in arms().items()
    for settings in [{"dgm_width": 16, "z": 4, "mask_schedule": "annealed", "mask_rate": 0.9}]
}


def finished(arm: str, data, **options) -> dict:
    return run(make_trial(arm, **SMALL[arm], **options), data)


@pytest.mark.parametrize("arm", list(arms()))
def test_every_arm_trains_and_resumes_to_the_same_bits(arm, squares, tmp_path):
    """Two epochs at a stretch; then the same with an interruption after the first."""
    trial = make_trial(arm, **SMALL[arm])
    records = []
    whole = run(trial, squares, tmp_path / "whole", on_epoch=records.append)
    assert whole["status"] == "finished"
    assert whole["epochs"] == len(records) == 2
    assert [row["mode"] for row in whole["evaluations"]].count("mc") == (8 if "mc" in arms()[arm].modes else 0)
    assert all(math.isfinite(v) for row in whole["evaluations"] for v in row.values() if isinstance(v, float))
    best = next(r for r in whole["evaluations"] if (r["at"], r["mode"], r["split"]) == ("last", "point", "test"))
    assert best["accuracy"] > 0.5  # of three classes
    for record in records:
        assert {"train_loss", "validation_nll", "validation_ece", "images_per_second"} <= record.keys()
        if arm.startswith("pilot"):
            layers = 1 if "-x-" in arm else 3
            errors = [f"imputation_error_{layer}" for layer in range(layers)]
            assert {"reconstruction", "kl", "hyperprior", "gradient_norm", *errors} <= record.keys()

    # The checkpoint of the first epoch is all that is left of the first process; the second has random states of
    # its own until it is restored.
    trainer = Trainer(trial, squares)
    trainer.train_epoch()
    resumed = TrialFiles.in_folder(tmp_path / "resumed")
    checkpoint.save(resumed.checkpoint, trainer.state())
    torch.rand(17)
    after = run(trial, squares, tmp_path / "resumed")
    assert after["evaluations"] == whole["evaluations"]
    first, second = (checkpoint.load(TrialFiles.in_folder(tmp_path / name).checkpoint) for name in ("whole", "resumed"))
    assert same(first["model"], second["model"])
    assert same(first["optimiser"], second["optimiser"])
    assert same(first["best"], second["best"])
    assert torch.equal(first["random"], second["random"])
    stored = [
        tables.load_predictions(TrialFiles.in_folder(tmp_path / name).predictions) for name in ("whole", "resumed")
    ]
    assert all(np.array_equal(a.logits, b.logits) for a, b in zip(*stored, strict=True))
    assert evaluate(stored[0]) == whole["evaluations"]  # every figure can be had again without training


def same(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_a_killed_process_resumes_to_the_same_bits(tmp_path):
    """kill -9 somewhere in an epoch; the command line then goes on."""
    options = {"training.epochs": 4, "data.train_size": 1000}
    script = (
        "import sys; from pathlib import Path\n"
        "from pilotstudy import spec; from pilotstudy.data.prepared import load; from pilotstudy.trial import run\n"
        f"trial = spec.trial(spec.load('quickstart', {options}), 'pilot-a-aug', 0)\n"
        "run(trial, load('fashion'), Path(sys.argv[1]), threads=1, checkpoint_seconds=0)\n"
    )
    files = TrialFiles.in_folder(tmp_path / "a")
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path / "a"])
    while not files.checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not files.result.exists()
    command = [sys.executable, "-m", "pilotstudy", "train", "quickstart", "--arm", "pilot-a-aug", "--json"]
    command += ["--epochs", "4", "--train-size", "1000", "--threads", "1", "-o"]
    results = []
    for name in "a", "b":
        done = subprocess.run([*command, tmp_path / name], capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout))
        assert ("epoch 1/4" in done.stderr) == (name == "b")
    assert results[0]["evaluations"] == results[1]["evaluations"]


def test_arms_of_a_seed_share_initial_weights_images_and_their_order(squares):
    weights, orders = [], []
    for arm in "vanilla", "pilot-a-aug", "dropout":
        trainer = Trainer(make_trial(arm, seed=3, **SMALL[arm]), squares)
        weights.append(trainer.regulariser.network.layer1.weight.detach().clone())
        orders.append(torch.cat([y for _, y in trainer.batches()]))
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])
    assert torch.equal(orders[0], orders[1])
    other = Trainer(make_trial(seed=4), squares)
    assert not torch.equal(weights[0], other.regulariser.network.layer1.weight)
    assert not torch.equal(orders[0], torch.cat([y for _, y in other.batches()]))
    assert torch.equal(other.validation_rows, trainer.validation_rows)


def test_the_same_seed_gives_the_same_result_and_another_does_not(squares):
    assert finished("pilot-a-drop", squares)["evaluations"] == finished("pilot-a-drop", squares)["evaluations"]
    assert finished("vanilla", squares, seed=1)["evaluations"] != finished("vanilla", squares)["evaluations"]


def test_test_data_change_nothing_but_their_own_figures(squares):
    """Noise for test labels and images: every choice stays the same."""
    noisy = make_data(seed=9)
    noisy = type(squares)(**{**vars(squares), "test_images": noisy.test_images, "test_labels": noisy.test_labels[::-1]})
    ours, theirs = finished("pilot-a-aug", squares), finished("pilot-a-aug", noisy)
    assert ours["best_epoch"] == theirs["best_epoch"]

    def choices(result):
        return [row if row["split"] == "validation" else row["temperature"] for row in result["evaluations"]]

    assert choices(ours) == choices(theirs)
    assert ours["evaluations"] != theirs["evaluations"]


def test_a_loss_that_is_not_finite_ends_the_trial(squares, tmp_path):
    trial = make_trial("vanilla")
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"learning_rate": 1e30})})
    with pytest.raises(DivergedError, match="epoch 1"):
        Trainer(trial, squares).train_epoch()
    result = run(trial, squares, tmp_path)
    assert (result["status"], result["epochs"], result["evaluations"]) == ("diverged", 1, [])
    assert "NaN" not in TrialFiles.in_folder(tmp_path).result.read_text()
    assert run(trial, squares, tmp_path) == result


def test_a_result_is_not_made_twice_nor_overwritten(squares, tmp_path):
    first = run(make_trial(), squares, tmp_path)

    def fail(record):
        raise AssertionError("trained again")

    assert run(make_trial(), squares, tmp_path, on_epoch=fail) == first
    with pytest.raises(InputError, match="holds another trial's result"):
        run(make_trial(seed=1), squares, tmp_path)


def test_checkpoints_of_others_are_refused(squares, tmp_path):
    files = TrialFiles.in_folder(tmp_path)
    trainer = Trainer(make_trial("dropout"), squares)
    trainer.train_epoch()
    checkpoint.save(files.checkpoint, trainer.state())
    before = files.checkpoint.read_bytes()
    with pytest.raises(CheckpointError, match=r"of another trial \(dropout, seed 0; this one differs in arm"):
        run(make_trial("vanilla"), squares, tmp_path)
    with pytest.raises(CheckpointError, match="of other data"):
        run(make_trial("dropout"), make_data(seed=1), tmp_path)
    assert files.checkpoint.read_bytes() == before
    files.checkpoint.write_bytes(before[: len(before) // 2])
    with pytest.raises(CheckpointError, match="damaged"):
        run(make_trial("dropout"), squares, tmp_path)


def test_a_pickle_in_a_checkpoint_is_not_run(squares, tmp_path):
    files = TrialFiles.in_folder(tmp_path)

    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "boom"), "w")

    torch.save({"format": 1, "model": Bomb()}, files.checkpoint)
    with pytest.raises(CheckpointError, match="more than tensors"):
        run(make_trial(), squares, tmp_path)
    files.checkpoint.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError):
        run(make_trial(), squares, tmp_path)
    assert not (tmp_path / "boom").exists()


def test_a_full_disk_loses_nothing(tmp_path):
    """A file size limit stands in for a full disk: the same failing write, half-way through."""
    files = TrialFiles.in_folder(tmp_path)
    checkpoint.save(files.checkpoint, {"weights": torch.zeros(10)})
    script = (
        "import resource, sys, torch; from pathlib import Path; from pilotstudy import checkpoint\n"
        "from pilotstudy.errors import StorageError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "try: checkpoint.save(Path(sys.argv[1]), {'weights': torch.zeros(100_000)})\n"
        "except StorageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, files.checkpoint], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert checkpoint.load(files.checkpoint)["weights"].shape == (10,)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_folder_that_cannot_be_made(squares, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        run(make_trial(epochs=1), squares, tmp_path / "file" / "folder")


def test_the_scaling_standardises_with_training_images_only(squares):
    rows = np.arange(0, 100)
    scaling = Scaling.fit("standardised", squares.train_images, rows)
    x = scaling(torch.from_numpy(squares.train_images[rows]))
    assert x.mean().abs() < 1e-5
    assert x.std(unbiased=False).item() == pytest.approx(1, abs=1e-5)
    unit = Scaling.fit("unit", squares.train_images, rows)(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1))
    assert unit.flatten().tolist() == [0.0, 1.0]


def test_a_last_batch_of_one_is_left_out_for_batch_norm():
    data = make_data(n=300)  # 60 validate, 240 train: a batch of 239 and one of 1
    trial = make_trial("batchnorm", epochs=1)
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"batch_size": 239})})
    assert run(trial, data)["status"] == "finished"


def test_bf16_trains(squares):
    trial = make_trial("pilot-a-aug", epochs=1, dgm_width=16, z=4)
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"precision": "bf16"})})
    assert run(trial, squares)["status"] == "finished"


def test_the_network_of_cnn_studies(squares):
    result = finished("pilot-a-aug", squares, network="cnn", epochs=1)
    assert result["status"] == "finished"
    found = {row["at"] for row in result["evaluations"]}
    assert found == {"last", "best"}


def test_parquet_tables_round_trip(squares, tmp_path):
    result = run(make_trial("pilot-a-aug", **SMALL["pilot-a-aug"]), squares, tmp_path)
    files = TrialFiles.in_folder(tmp_path)
    import pyarrow.parquet as pq

    table = pq.read_table(files.epochs)
    assert table.schema.remove_metadata() == tables.EPOCHS
    assert table["epoch"].to_pylist() == [1, 2]
    assert len(table["imputation_error"][1].as_py()) == 3
    predictions = tables.load_predictions(files.predictions)
    assert len(predictions) == 8
    test = next(p for p in predictions if (p.at, p.mode, p.split) == ("last", "point", "test"))
    row = next(r for r in result["evaluations"] if (r["at"], r["mode"], r["split"]) == ("last", "point", "test"))
    assert metrics.evaluate(test.logits, squares.test_labels)["nll"] == row["nll"]
    diagram = next(d["bins"] for d in result["reliability"] if (d["at"], d["mode"]) == ("last", "point"))
    filled = [b for b in diagram if b["count"]]
    ece = sum(b["count"] * abs(b["accuracy"] - b["confidence"]) for b in filled) / len(squares.test_labels)
    assert ece == pytest.approx(row["ece"])
    assert all(b["lower"] < b["confidence"] <= b["upper"] + 1e-9 for b in filled)
    assert all(b["accuracy"] is None for b in diagram if not b["count"])
