"""What a model is judged by: BLEU, chrF, bits per character, significance, speed, size."""
