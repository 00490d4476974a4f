"""What a model is judged by: scores of its text, bits per character, calibration, significance, speed."""
