"""Sm(w): the upstream tokens that resemble a new one, its subwords and its hyperwords."""
