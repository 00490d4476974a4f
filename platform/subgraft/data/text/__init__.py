"""Corpora, where they come from, noise, and batches."""
