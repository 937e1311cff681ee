"""Arguments are held to the rules that study files have: what is wrong is told in one line."""

import math
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from numbers import Integral, Real


def check_number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
    whole: bool = False,
) -> None:
    """A finite number, above < value < below and least <= value <= most."""
    kind = Integral if whole else Real
    good = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not (above < value < below and least <= value <= most):  # type: ignore[operator]
        bounds = {"above": above, "at least": least, "below": below, "at most": most}
        said = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
        raise ValueError(f"{name} = {value!r}: must be a {'whole ' if whole else ''}number {said}".rstrip())


def check_choice(name: str, value: object, options: Iterable[str]) -> None:
    options = list(options)
    if value not in options:
        raise ValueError(f"{name} = {value!r}: choose one of {', '.join(options)}")


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} = {value!r}: must be True or False")


def check_names(name: str, value: object) -> None:
    """A list of texts; one text alone would be taken for its letters."""
    is_list = isinstance(value, Collection) and not isinstance(value, str)
    if not is_list or not all(isinstance(each, str) for each in value):  # type: ignore[attr-defined]
        raise ValueError(f"{name} = {value!r}: must be a list of names, such as ['first', 'second']")


def unknown_layer(name: str, names: Iterable[str]) -> ValueError:
    """What to raise where the network has no layer of that name."""
    names = list(filter(None, names))
    near = get_close_matches(name, names, 1)
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names[:10])}{more}"
    return ValueError(f"the network has no layer {name!r}: {hint}")
