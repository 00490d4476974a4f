"""The record of runs and the registry of models, in MLflow."""
