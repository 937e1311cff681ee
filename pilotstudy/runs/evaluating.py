"""The evaluation of stored predictions: every metric of all that is kept of a trial."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from pilotstudy.metrics import registry, scores
from pilotstudy.metrics.computation import Fitted
from pilotstudy.metrics.scores import Array
from pilotstudy.metrics.soft import soft_figures
from pilotstudy.runs.records import Bin, Evaluation
from pilotstudy.runs.schemas import Predictions, TrialPredictions

NO_SOFT_LABELS: Mapping[str, Array] = MappingProxyType({})


def evaluate(
    predictions: TrialPredictions, soft_labels: Mapping[str, Array] = NO_SOFT_LABELS
) -> tuple[Evaluation, ...]:
    """Figures for each epoch, mode and split, as it is and after temperature scaling.

    What is fitted, the temperature among it, is fitted on the validation data of the same epoch and mode; without them
    nothing is. `soft_labels`: of the splits that have such, in the order of their predictions.
    """
    return tuple(_evaluations(predictions, soft_labels))


def _evaluations(predictions: TrialPredictions, soft_labels: Mapping[str, Array]) -> Iterator[Evaluation]:
    for (at, mode), pair in predictions.items():
        temperatures = {False: 1.0}
        if len(pair.validation.labels):
            temperatures[True] = scores.fit_temperature(pair.validation.logits, pair.validation.labels)
        best = temperatures.get(True)
        fits = {scaled: fitted(pair.validation, temperature, best) for scaled, temperature in temperatures.items()}
        for split, part in pair.splits.items():
            for scaled, temperature in temperatures.items() if part.is_labelled else ():
                figures = registry.evaluate(part.logits, part.labels, temperature, fitted=fits[scaled])
                if split in soft_labels:
                    log_p = scores.log_probabilities(part.logits, temperature)
                    figures |= soft_figures(log_p, soft_labels[split])
                yield Evaluation(at, mode, split, scaled, temperature, len(part.labels), figures)


def fitted(validation: Predictions, temperature: float, best: float | None) -> Fitted | None:
    """What is fitted on validation predictions at a temperature, where `best` is the one with the least NLL."""
    if best is None:
        return None
    log_p = scores.log_probabilities(validation.logits, temperature)
    return Fitted.on(log_p, validation.labels, best / temperature)


def reliability(predictions: Predictions) -> tuple[Bin, ...]:
    """The bins of the reliability diagram; an empty one has no confidence and no accuracy."""
    p = np.exp(scores.log_probabilities(predictions.logits))
    binned = scores.binned(*scores.confidences(p, predictions.labels))
    return tuple(
        Bin(
            count=int(count),
            confidence=float(confidence) if count else None,
            accuracy=float(accuracy) if count else None,
            lower=float(lower),
            upper=float(upper),
        )
        for count, confidence, accuracy, lower, upper in zip(
            binned.count, binned.confidence, binned.accuracy, binned.lower, binned.upper, strict=True
        )
    )
