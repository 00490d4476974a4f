"""Pairs that are made of text alone."""
