"""Initialisers of new tokens' rows, and the registry of all of them."""
