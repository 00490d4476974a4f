"""Checks between settings that no single setting can make alone."""
