"""Stages: classes whose fields say what to make, and whose `run` makes it."""
