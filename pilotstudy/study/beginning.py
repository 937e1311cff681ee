"""The first file of a new study: short, with comments that teach, and, if asked, one with code of the user's own."""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pilotstudy.arms.catalogue import arm_named
from pilotstudy.data import dataset, sources
from pilotstudy.data.hub import hub_name
from pilotstudy.errors import DataError, InputError
from pilotstudy.networks.catalogue import check_name
from pilotstudy.study.naming import check_run_name
from pilotstudy.study.toml import toml_text

ARMS = ("vanilla", "dropout", "pilot-a-aug")
OF_LAB = "my-network", "soft-targets"  # the network and the arm
TRIALS_EACH = 4


@dataclass(frozen=True)
class Known:
    """What suits a data set."""

    validation: int
    epochs: int


KNOWN = {
    "fashion": Known(1_000, 20),
    "fashion-mnist": Known(5_000, 30),
    "cifar10": Known(5_000, 60),
    "svhn": Known(5_000, 40),
}


@dataclass(frozen=True)
class Beginning:
    """A new study: its name, what it is to be about, and whether code of one's own comes with it."""

    name: str
    data: str = "fashion"
    network: str | None = None
    arms: tuple[str, ...] = ()
    lab: bool = False

    @property
    def lab_file(self) -> str:
        """A Python module, so its name has neither dashes nor spaces."""
        stem = re.sub(r"\W", "_", f"{self.name}_lab")
        return f"{stem if stem.isidentifier() else f'_{stem}'}.py"

    def write(self, file: Path) -> list[Path]:
        """The files that were written; none that is there is changed."""
        check_run_name(self.name, "NAME")
        texts = {file: self.study_text(file.stem)}
        if self.lab:
            texts[file.parent / self.lab_file] = LAB
        for path in texts:
            if path.exists():
                raise InputError(f"{path} is there already: choose another name, or --output")
        for path, text in texts.items():
            try:
                path.write_text(text, "utf-8")
            except OSError as error:
                raise InputError(f"cannot write {path}: {error.strerror}") from error
        return list(texts)

    def study_text(self, stem: str) -> str:
        arms = self.arms or (*ARMS, *OF_LAB[1:] * self.lab)
        network = self.network or (OF_LAB[0] if self.lab else "mlp-512")
        for arm in arms:
            if not (self.lab and arm == OF_LAB[1]):
                arm_named(arm)
        if not (self.lab and network == OF_LAB[0]):
            check_name(network)
        data, known, why = suited(self.data)
        own = ([] if stem == self.name else ["name"]) + (["uses"] if self.lab else [])
        values = {"name": self.name, "uses": [self.lab_file]}
        return STUDY.format(
            title=_line("title", self.name),
            own="".join(f"{_line(key, values[key])}\n" for key in own),
            data=_line("name", data),
            validation=known.validation,
            why=why,
            network=_line("name", network),
            epochs=known.epochs,
            arms="\n".join(_arm_line(arm) for arm in arms),
            searched=_line("arms", list(arms)),
            trials=TRIALS_EACH * len(arms),
            claims=_claims(arms),
        )


def _line(key: str, value: object) -> str:
    return toml_text({key: value}).rstrip("\n")


def _arm_line(arm: str) -> str:
    if arm.startswith("pilot-"):
        return f"{arm} = {{ dgm_width = 64, z = 16 }} # a small DGM, for small data; {{}} is the paper's"
    return f"{arm} = {{}}"


def _claims(arms: tuple[str, ...]) -> str:
    first, *others = arms
    if not others:
        return '# [[claims]]\n# says = ".."\n# holds = "nll: one < another"'
    best = next((arm for arm in others if arm.startswith("pilot-")), others[-1])
    claim = {"says": f"{best} has a lower NLL than {first}", "holds": f"nll: {best} < {first}"}
    return f"[[claims]]\n{toml_text(claim)}".rstrip("\n")


def suited(name: str) -> tuple[str, Known, str]:
    """The data set as a study names it, what suits it, and what to say of that."""
    if name in KNOWN:
        return name, KNOWN[name], ""
    if hub_name(name):
        return name, Known(1_000, 30), "; about a tenth of them is usual"
    place = dataset.find_own(name, None)
    assert place is not None
    number = training_images(place)
    if number is None:
        return str(place.resolve()), Known(1_000, 30), "; about a tenth of them is usual"
    return str(place.resolve()), Known(max(number // 10, 1), 30), f", of which there are {number:,}"


def training_images(place: Path) -> int | None:
    """How many there are in a user's own folder or file, if that is quickly told."""
    files = sources.layout(place)
    try:
        if "arrays" in files:
            with np.load(place, allow_pickle=False) as arrays:
                return len(arrays["train_labels" if "train_labels" in arrays else "y_train"])
        if files["train"][0].suffix == ".parquet":
            from pyarrow import parquet

            return sum(int(parquet.read_metadata(file).num_rows) for file in files["train"])
        return len(files["train"])
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, DataError):
        return None


STUDY = """\
# A study: which of these arms makes the network accurate and honest, and is the difference real?
# `pilotstudy show FILE` prints it with every default filled in.

{title}
{own}seeds = [0, 1, 2] # each arm is trained once with each; intervals need two or more, better three

[data]
{data} # fashion, cifar10, svhn, fashion-mnist, hf:owner/name, or a folder or .npz file of your own
validation = {validation} # cut from the training images{why}
# train_size = 2000 # a class-balanced part of the rest
# scaling = "standardised" # or "unit", the default: pixels in [0, 1]

[network]
{network} # mlp-512, mlp-1024, mlp, cnn, resnet-20, resnet-18, torchvision:NAME, timm:NAME, or your own

[training] # the same for every arm
epochs = {epochs}
batch_size = 128
learning_rate = 1e-3
# optimiser = {{ name = "sgd", momentum = 0.9 }} # by default adam
# schedule = "cosine" # by default constant
# augmentation = "flips-and-crops"
# weight_decay = 5e-4

[arms] # `pilotstudy arms` lists them all, with their settings
{arms}
# dropout-light = {{ method = "dropout", rate = 0.2, label = "Dropout 0.2" }} # one arm with other settings

[search] # the best settings of each arm, by validation images; they are confirmed with fresh seeds
{searched}
trials = {trials} # in all; 0 leaves the search out

[search.space] # beside what each arm declares
"training.learning_rate" = {{ low = 1e-4, high = 1e-2, log = true }}

# What you expect, said before it runs: `metric: row < row`; `pilotstudy claims RUN` judges it.
{claims}
"""

LAB = '''\
"""A network, an arm and a metric of my own; the study names this file in `uses`."""

import pilotstudy
from torch import nn
from torch.nn import functional as F


@pilotstudy.network("my-network")  # in the study: [network] name = "my-network", options = { width = 32 }
def make(shape, classes, width=16):
    channels, height, width_of_image = shape
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


@pilotstudy.arm(
    "soft-targets",
    "cross-entropy with labels that leave a little to the other classes",
    space={"smoothing": pilotstudy.Range(0.01, 0.3)},  # what a search may choose
    role="baseline",
)
class SoftTargets(pilotstudy.Regulariser):
    class Settings(pilotstudy.Settings):
        smoothing: float = 0.1

    def __init__(self, network, smoothing):
        super().__init__(network)
        self.smoothing = smoothing

    def cross_entropy(self, logits, y):
        return F.cross_entropy(logits, y, label_smoothing=self.smoothing)


@pilotstudy.metric("sure_and_wrong", better="lower", bounds=(0, 1))
def sure_and_wrong(points):
    """1 for an image of which the network was 90 % sure and wrong, else 0: the figure is their share."""
    return (points.confidence > 0.9) * (1.0 - points.correct)
'''
