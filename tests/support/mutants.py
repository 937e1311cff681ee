"""Study files that are almost right: mutants of whole ones, by structure and by letter, the same for the same seed."""

import datetime
import json
import math
import random
import re
from copy import deepcopy

RICH = """
title = "every feature"
seeds = [0, 7, 3]
uses = ["mutant_lab.py"]

[data]
name = "fashion"
validation = 1000
train_size = 500
train_subset = "by-seed"
scaling = "standardised"
image_size = 16

[network]
name = "mlp"
options = { hidden = [64, 32] }
layers = ["layer1", "layer2"]

[training]
epochs = 4
batch_size = 64
learning_rate = 0.05
optimiser = { name = "sgd", momentum = 0.8, nesterov = true }
schedule = { name = "cosine", final = 0.01, warmup = 1 }
weight_decay = 5e-4
gradient_clip = 1.0
augmentation = "flips-and-crops"
average = { name = "ema", decay = 0.99 }
patience = 3

[arms]
vanilla = {}
dropout = { rate = 0.3 }
light = { method = "dropout", rate = 0.1, label = "Dropout 0.1" }
both = { method = ["pilot-a-aug", "dropout"], rate = 0.2, dgm_width = 32 }

[search]
arms = ["dropout", "light"]
trials = 8
objectives = ["nll", "ece"]
accuracy_floor = 0.2
early_stopping = true
confirm_seeds = 2
seed = 5

[search.space]
"training.learning_rate" = { low = 1e-3, high = 0.1, log = true }
training.batch_size = [32, 64]
rate = { low = 0.0, high = 0.9 }

[search.space.light]
rate = [0.05, 0.1]

[[claims]]
says = "a little dropout is better than none"
holds = "nll: light < vanilla"

[[claims]]
says = "and both are better than that"
holds = "ece: both@mc < light@mc - 0.001"
section = "4"
only = ["rich"]

[resources]
cpus_per_trial = 2
gpus_per_trial = 0.25
concurrency = 4
checkpoint_seconds = 1
mps = true
"""

EXTREMES = (
    *(0, 1, -1, 3, 2**31, 2**63 - 1, 2**63, 2**64, 2**70, -(2**70), 10**300, 10**4000),
    *(0.5, -0.0, 1e-320, 1e308, -1e308, math.inf, -math.inf, math.nan),
    *(True, False, "", " ", "..", "../../x", "/", "a/b", ".", "\0", "\x1b[31m", "\x7f", "é", "🦆" * 60, "x" * 5_000),
    *("vanilla", "dropout", "pilot-a-aug+dropout", "torchvision:resnet18", "a:b", ":", ".:x", "os:getcwd", "json.:x"),
    *([], [[]], [0, "a", None], [[[[1]]]], [{}], [{"a": 1}, 2], {}, {"": 1}, {"a": {"b": []}}, {"low": 1, "high": 2}),
    *(datetime.date(1979, 5, 27), datetime.time(7, 32), datetime.datetime(1979, 5, 27, 7, 32)),
)
KEYS = (
    "",
    " ",
    "name",
    "epochs",
    "training",
    "a.b",
    "\0",
    "é",
    "'",
    "method",
    "label",
    "options",
    "low",
    "-",
    "x" * 300,
)
KINDS = ("delete", "rename", "misspell", "double", "value", "value", "near", "near", "swap", "wrap", "deep")
LETTERS = "\0\x01\x1b\x7f\n\r\t\"'[]{}=.,#\\0-é\u2028\ufeff"


def mutants(texts: dict[str, str], number: int, seed: int = 0):
    """So many of them: name and bytes."""
    import tomllib

    drawn = random.Random(seed)
    whole = {name: tomllib.loads(text) for name, text in texts.items()}
    for _ in range(number):
        name = drawn.choice(sorted(texts))
        if drawn.random() < 0.7:
            content = deepcopy(whole[name])
            for _ in range(drawn.choice((1, 1, 1, 2, 5))):
                structural(content, drawn)
            yield name, written(content).encode("utf-8", "surrogatepass")
        else:
            text = texts[name].encode()
            for _ in range(drawn.choice((1, 1, 2, 4))):
                text = textual(text, drawn)
            yield name, text


def structural(content: dict, drawn: random.Random) -> None:
    """Changes one place: deletes, renames, doubles, moves, nests it, or gives it another value."""
    places = list(walk(content))
    if not places:
        return
    holder, key = drawn.choice(places)
    kind = drawn.choice(KINDS)
    value = holder[key]
    if kind == "delete":
        del holder[key]
    elif kind in ("rename", "misspell", "double") and isinstance(holder, dict):
        new = drawn.choice(KEYS) if kind != "misspell" else misspelt(key, drawn)
        holder[new] = value if kind != "double" else deepcopy(value)
        if kind != "double" and new != key:
            del holder[key]
    elif kind == "double":
        holder.insert(key, deepcopy(value))
    elif kind == "swap":
        other, at = drawn.choice(places)
        holder[key] = deepcopy(other[at])
    elif kind == "wrap":
        holder[key] = [value] if drawn.random() < 0.5 else {drawn.choice(KEYS): value}
    elif kind == "deep":
        for _ in range(drawn.choice((5, 25, 50))):
            value = [value] if drawn.random() < 0.5 else {"a": value}
        holder[key] = value
    elif kind == "near" and isinstance(value, int | float):
        holder[key] = drawn.choice((value + 1, value * 2, value // 2, -value, float(value), not value))
    else:
        holder[key] = deepcopy(drawn.choice(EXTREMES))


def misspelt(key: str, drawn: random.Random) -> str:
    at = drawn.randrange(len(key) + 1)
    return key[:at] + drawn.choice("aex_") + key[at + drawn.randrange(2) :]


def walk(value):
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, dict | list):
            yield from walk(inner)


def textual(text: bytes, drawn: random.Random) -> bytes:
    at = drawn.randrange(len(text) + 1)
    lines = text.split(b"\n")
    kind = drawn.choice(("flip", "cut", "insert", "line", "double", "nest"))
    if kind == "flip" and at < len(text):
        return text[:at] + bytes([text[at] ^ (1 << drawn.randrange(8))]) + text[at + 1 :]
    if kind == "cut":
        return text[:at]
    if kind == "insert":
        return text[:at] + drawn.choice(LETTERS).encode() + text[at:]
    line = drawn.randrange(len(lines))
    if kind == "line":
        del lines[line]
    elif kind == "double":
        lines.insert(drawn.randrange(len(lines)), lines[line])
    elif kind == "nest":
        depth = drawn.choice((50, 3_000))
        lines[line] += b"\nx = " + b"[" * depth + b"]" * depth
    return b"\n".join(lines)


def written(value, top: bool = True) -> str:
    """Any content as TOML, sound or not: all in braces below the first keys."""
    if isinstance(value, dict):
        pairs = [f"{literal_key(key)} = {written(inner, False)}" for key, inner in value.items()]
        return "\n".join(pairs) + "\n" if top else f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(written(inner, False) for inner in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None:
        return '""'
    if isinstance(value, int | float | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return value.isoformat()


def literal_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key).replace("\x7f", "\\u007f")
