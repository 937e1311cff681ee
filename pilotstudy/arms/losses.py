"""Other losses in the place of cross-entropy: label smoothing, the focal loss, the confidence penalty."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.losses import ConfidencePenalty, Focal, LabelSmoothing
    from pilotstudy.networks.network import Network

ORDER = 20


class LabelSmoothingSettings(Settings):
    """`smoothing`: what the label leaves to all classes alike."""

    smoothing: float = Field(0.1, ge=0, le=1)


class FocalSettings(Settings):
    """`gamma`: how much less a label counts whose probability is high already; 0 is cross-entropy."""

    gamma: float = Field(3.0, ge=0)


class ConfidencePenaltySettings(Settings):
    """`beta`: the coefficient of the entropy of the prediction."""

    beta: float = Field(0.1, ge=0)


@arm(
    "label-smoothing",
    "cross-entropy with labels that leave a little to every class",
    settings=LabelSmoothingSettings,
    space={"smoothing": Range(0.01, 0.3)},
    label="Label smoothing",
    group="modern",
)
def build_label_smoothing(settings: LabelSmoothingSettings, network: "Network", inputs: Inputs) -> "LabelSmoothing":
    from pilotstudy.method.losses import LabelSmoothing

    return LabelSmoothing(network, smoothing=settings.smoothing)


@arm(
    "focal",
    "the focal loss: what is sure already counts less",
    settings=FocalSettings,
    space={"gamma": Range(0.5, 5)},
    label="Focal loss",
    group="modern",
)
def build_focal(settings: FocalSettings, network: "Network", inputs: Inputs) -> "Focal":
    from pilotstudy.method.losses import Focal

    return Focal(network, gamma=settings.gamma)


@arm(
    "confidence-penalty",
    "cross-entropy less a part of the entropy of the prediction",
    settings=ConfidencePenaltySettings,
    space={"beta": Range(0.01, 1, log=True)},
    label="Confidence penalty",
    group="modern",
)
def build_confidence_penalty(
    settings: ConfidencePenaltySettings, network: "Network", inputs: Inputs
) -> "ConfidencePenalty":
    from pilotstudy.method.losses import ConfidencePenalty

    return ConfidencePenalty(network, beta=settings.beta)
