"""Generating text with a trained model: search, length limits, and token probabilities."""
