"""Numbers with few digits, for a small page."""

import math


def rounded(value: object, digits: int = 5) -> object:
    """A JSON-able value whose floats have few digits; one that is not finite is none."""
    if isinstance(value, dict):
        return {name: rounded(entry, digits) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.{digits}g}")
    return value
