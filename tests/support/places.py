"""Where things are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]  # of the checkout
SHARED = ROOT.parent / "shared"  # what does not belong to it; may be missing
