"""A trial's key: what decides its numbers, and nothing else.

That is its settings, the data, its seed, and the code of its own arm, its network and of training. Of that code, what
it does: comments, docstrings, annotations, labels and the places of files don't count. Nor do other arms, what a search
may choose, or metrics, which can be computed again from the stored logits.
"""

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import FunctionType

from pilotstudy import extensions
from pilotstudy.arms.catalogue import all_arms, arm_named
from pilotstudy.networks.catalogue import NETWORKS, is_brought, maker, source_of_network
from pilotstudy.runs.compiled import parts_of
from pilotstudy.runs.meaning import meaning, meaning_of
from pilotstudy.storage import PACKAGE
from pilotstudy.study.spec import Trial

# Every trial runs through these. What they import of the rooms below counts too.
TRAINING = (
    "data.splits",
    "trial.averaging",
    "trial.device",
    "trial.graph",
    "trial.predicting",
    "trial.scaling",
    "trial.trainer",
)
DECIDING_ROOMS = ("arms", "data", "method", "networks", "trial")
# These are imported by the code above and decide no number: lists, types, what is on disk, metrics of stored logits.
NOT_DECIDING = (
    "arms.arm",
    "arms.catalogue",
    "arms.composing",
    "arms.masks",
    "networks.catalogue",
    "data.dataset",
    "data.sources",
    "trial.augmenting",  # it does where a recipe asks for it
    "trial.checkpoint",
)


def key_of(trial: Trial, fingerprint: str) -> str:
    """Trials with the same key are the same trial."""
    arms = trial.arm.split("+")
    ours = ["trial.augmenting"] if trial.training.augmentation != "none" else []
    others = []
    for module, name in [*map(source_of_arm, arms), source_of_network(trial.network.name)]:
        if module.startswith("pilotstudy."):
            ours.append(module.removeprefix("pilotstudy."))
        else:
            others.append(_short(meaning_of(module, name)))
    network = repr(NETWORKS.get(trial.network.name, trial.network.name))
    code = [digest_of((*TRAINING, *dict.fromkeys(ours))), *others]
    entries: list[object] = [declared(name) for name in arms]
    if is_brought(trial.network.name):
        entries.append(called(maker(trial.network.name)))
    deciding = json.dumps([trial.model_dump(), fingerprint, entries, network, code], sort_keys=True)
    return hashlib.sha256(deciding.encode()).hexdigest()[:20]


def source_of_arm(name: str) -> tuple[str, str]:
    """The module of what builds it, and its name there."""
    return extensions.source_of(arm_named(name).build)


def declared(name: str) -> dict[str, object]:
    """What an arm's entry says that decides numbers: how it predicts, what builds it, and its network's options."""
    arm = arm_named(name)
    return {"modes": list(arm.modes), "network": dict(arm.network), "build": called(arm.build)}


def called(function: Callable[..., object]) -> list[object]:
    """A function's name with the arguments that are bound to it; of one without a name, what it does."""
    if isinstance(function, partial):
        return [called(function.func), _bound(function.args), _bound(function.keywords)]
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    return [name, *(text for text, _ in parts_of(code))] if code and name == "<lambda>" else [name]


def _bound(value: object) -> object:
    """An argument as it can stand in a key, the same in every process; of a user's own functions, what they do."""
    if isinstance(value, Mapping):
        return sorted([repr(key), _bound(each)] for key, each in value.items())
    if isinstance(value, list | tuple):
        return [_bound(each) for each in value]
    if not isinstance(value, partial | FunctionType | type):
        return repr(value)
    module, name = extensions.source_of(value)
    return [*called(value), module, meaning_of(module, name) if extensions.is_own(module) else ""]


def code_version() -> str:
    """A digest of all code that decides numbers, for the record: keys hold no more of it than their trial needs."""
    sources = [*map(source_of_arm, all_arms()), *map(source_of_network, NETWORKS)]
    ours = {module.removeprefix("pilotstudy.") for module, _ in sources if module.startswith("pilotstudy.")}
    return digest_of((*TRAINING, *sorted(ours)))


@cache
def digest_of(modules: tuple[str, ...], package: Path = PACKAGE) -> str:
    """Of what these modules do, and those that they import; which name comes from which of them counts, too."""
    contents = []
    for module in closure(modules, package):
        contents.append(meaning(code_of(module, package)))
        for name, source in imports_of(module, package):
            if decides(source):
                ends = (_short(meaning(code_of(each, package))) for each in (module, source))
                contents.append(" ".join([name, *ends]))
    return _short("\n".join(sorted(contents)))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def closure(modules: Iterable[str], package: Path = PACKAGE) -> set[str]:
    """These modules and all deciding ones that they import, directly or not; names are within the package."""
    reached: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += [source for _, source in imports_of(module, package) if decides(source)]
    return reached


def decides(module: str) -> bool:
    return module.split(".")[0] in DECIDING_ROOMS and module not in NOT_DECIDING


def imports_of(module: str, package: Path) -> Iterator[tuple[str, str]]:
    """What a module imports anywhere in it from the package's own: each name, and the module that it comes from."""
    for own_name, name, base in _imported(code_of(module, package), module):
        for source in f"{base}.{name}".lstrip("."), base:
            if source and path_of(source, package).is_file():
                yield own_name, source
                break


@cache
def _imported(code: str, module: str) -> list[tuple[str, str, str]]:
    """Names here, names there, and what they are imported from: a module, or a package of which it is a module."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("pilotstudy."):
                    base, _, name = alias.name.removeprefix("pilotstudy.").rpartition(".")
                    names.append((alias.asname or name, name, base))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative to where the module is
                base = ".".join(["pilotstudy", *module.split(".")[: -node.level], *filter(None, [base])])
            if base.split(".")[0] == "pilotstudy":
                inside = base.removeprefix("pilotstudy").lstrip(".")
                names += [(alias.asname or alias.name, alias.name, inside) for alias in node.names]
    return names


def path_of(module: str, package: Path) -> Path:
    path = package / f"{module.replace('.', '/')}.py"
    return path if path.is_file() else package / module.replace(".", "/") / "__init__.py"


def code_of(module: str, package: Path) -> str:
    return path_of(module, package).read_text("utf-8")
