"""Finished models in the forms that others read them in."""
