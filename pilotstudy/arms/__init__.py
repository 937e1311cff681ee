"""The arms: every method under the name that users type, with its settings, label, role and what a search may change.

May import `method` and `networks`, lazily, because they import torch, and `errors`.
"""
