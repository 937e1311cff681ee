import json

from tests.support.command_line import refused


def test_plan_counts_and_times(pilotstudy):
    words = ("plan", "quickstart", "--train-size", 100, "--epochs", 3, "--concurrency", 2)
    code, out, _ = pilotstudy(*words, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["trials"] == 3 * 5 + 6 + 2 * 5
    assert [row["search"] for row in found["arms"]] == [0, 3, 3]
    assert all(row["seconds"] == row["seconds_a_trial"] * (5 + row["search"] + row["confirm"]) for row in found["arms"])
    more = json.loads(pilotstudy(*words, "--json", "--epochs", 300)[1])
    assert more["seconds"] > found["seconds"] > sum(row["seconds"] for row in found["arms"]) / 2
    assert "31 trials, 2 at a time on CPU" in pilotstudy(*words)[1]


def test_plan_says_hours_and_dollars_of_a_machine_with_a_gpu(pilotstudy):
    words = ("plan", "quickstart", "--train-size", 100, "--epochs", 3, "--gpu", "L4", "--price", "0.7")
    code, out, _ = pilotstudy(*words, "--gpus-per-trial", "1/4")
    assert code == 0
    lines = out.splitlines()
    one = next(number for number, line in enumerate(lines) if line.startswith("one machine with an L4: "))
    assert lines[one].endswith(" $ at 0.70 $ an hour (estimate, ±50 %)")
    assert [line.split()[0] for line in lines[one + 1 : one + 4]] == ["2", "4", "8"]
    assert "4 trials share a GPU" in out
    found = json.loads(pilotstudy(*words, "--json")[1])
    assert [row["machines"] for row in found["machines"]] == [1, 2, 4, 8]
    assert not found["measured"]


def test_plan_of_a_gpu_that_cannot_be_used(pilotstudy, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(pilotstudy("plan", "quickstart", "--gpus-per-trial", "0.5"), 2, "cuda was asked for and cannot be used")
    words = ("plan", "quickstart", "--set", "resources.gpus_per_trial=1")
    refused(pilotstudy(*words), 2, "cuda was asked for and cannot be used")
