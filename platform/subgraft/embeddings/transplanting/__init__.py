"""Transplanting: a model with a new vocabulary and variants of its finetuning."""
