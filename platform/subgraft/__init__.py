"""Subgraft: fit pretrained generation models with the vocabulary their task needs."""

__version__ = "0.1.0"
