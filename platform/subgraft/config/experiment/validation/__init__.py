"""Checks between the settings of different groups."""
