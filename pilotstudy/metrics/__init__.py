"""What a prediction is worth: scores, calibration, intervals. Every metric is declared once, in `registry`.

May import numpy and scipy, and of the package only `errors`.
"""
