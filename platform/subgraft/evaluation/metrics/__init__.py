"""Metrics of models: scores of their text, bits per character, calibration, significance, speed."""
