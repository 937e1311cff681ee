"""What a run's stored predictions say: figures with intervals, claims, comparisons, ensembles. It trains nothing.

`RunEvidence` is the way in. May import `runs`, `study`, `arms`, `metrics`, `errors` and `storage`.
"""
