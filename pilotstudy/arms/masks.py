"""Pilot's four masks, which the noise arms share, in words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilotstudy.method.masks import MaskKind

MASKS: "dict[MaskKind, str]" = {
    "a-aug": "imputes one whole layer of a sample",
    "a-drop": "imputes units of all layers",
    "x-aug": "imputes the whole input of a sample",
    "x-drop": "imputes units of the input",
}
