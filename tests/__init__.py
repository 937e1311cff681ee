"""Tests, in folders named as the rooms of the package; what they share is in tests.support."""
