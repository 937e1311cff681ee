"""Arms composed of others: the first around the second, and so on, around the network."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import create_model

from pilotstudy.arms.arm import Arm, Inputs, Settings
from pilotstudy.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from pilotstudy.method.regulariser import Regulariser


def composed(parts: Sequence[Arm]) -> Arm:
    """All of `parts` at once. The first has its own loss, if any has; the others act within its forward pass.

    Before the first may stand what acts on its loss.
    """
    first, *inner = parts[1:] if parts[0].wraps else parts
    name = "+".join(part.name for part in parts)
    _check(name, parts)
    modes = first.modes if len(first.modes) > 1 else next((p.modes for p in inner if len(p.modes) > 1), first.modes)

    def build(settings: Settings, network: "nn.Module", inputs: Inputs) -> "Regulariser":
        given, built = settings.model_dump(), network
        for part in reversed(parts):
            own = part.settings.model_validate({key: given[key] for key in part.settings.model_fields})
            built = part.build(own, built, inputs)
            inputs = replace(inputs, layers=[f"network.{layer}" for layer in inputs.layers])
        return built  # type: ignore[return-value]

    label = " + ".join([parts[0].label, *(f"{part.label[0].lower()}{part.label[1:]}" for part in parts[1:])])
    return replace(
        first,
        name=name,
        about="; ".join(part.about for part in parts),
        settings=_settings(parts),
        space={key: choice for part in parts for key, choice in part.space.items()},
        build=build,
        modes=modes,
        network={key: value for part in parts for key, value in part.network.items()},
        label=label,
        sampled_label=f"MC {label}",
        family="",
        nests=False,
    )


def _settings(parts: Sequence[Arm]) -> type[Settings]:
    fields = {key: (field.annotation, field) for part in parts for key, field in part.settings.model_fields.items()}
    made: type[Settings] = create_model("ComposedSettings", __base__=Settings, **fields)  # type: ignore[call-overload]
    return made


def _check(name: str, parts: Sequence[Arm]) -> None:
    what = f"method = [{', '.join(repr(part.name) for part in parts)}]"
    first = parts[1] if parts[0].wraps else parts[0]
    seen: dict[str, str] = {}
    for part in parts:
        if part.role == "reference":
            raise InputError(f"{what}: {part.name} does nothing to a network, so it has no part in this")
        if part is not first and not part.nests and not (part.wraps and part is parts[0]):
            raise InputError(
                f"{what}: {part.name} has a loss or weights of its own, so it must come first, and only one can"
            )
        for key in part.settings.model_fields:
            if key in seen:
                raise InputError(f"{what}: {seen[key]} and {part.name} both have a setting {key!r}: compose others")
            seen[key] = part.name
