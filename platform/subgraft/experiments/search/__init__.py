"""Hyperparameter search: Ray Tune over an experiment's runner, Optuna as its sampler."""
