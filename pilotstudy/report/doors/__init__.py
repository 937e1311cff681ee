"""A run in the files of the tools people already use: Optuna's, TensorBoard's, MLflow's.

Each module writes one kind, whole or not at all; `told` has what all of them tell of a trial.
"""
