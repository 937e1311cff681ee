"""What is asked for: the study file, its validation, the language of claims, resources and budgets.

May import `arms`, `networks` and `metrics`; neither torch nor Ray.
"""
