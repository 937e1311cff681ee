"""Numbers with few digits, for a small page.

A figure that a command prints as well is not rounded here to nearly the digits that the page shows: rounded twice, its
last digit may be another.
"""

import math

WHOLE = 17  # digits: all of a float


def rounded(value: object, digits: int = 5) -> object:
    """A JSON-able value whose floats have few digits; one that is not finite is none."""
    if isinstance(value, dict):
        return {name: rounded(entry, digits) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.{digits}g}")
    return value
