"""Downstream tasks: what each declares for settings and plans, and how its files become pairs or labelled examples."""
