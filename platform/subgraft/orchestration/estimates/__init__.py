"""Estimates of a run's updates, memory and time before it starts."""
