"""Transplanting: a model with a new vocabulary, variants of its finetuning, and the intrinsic quality of new rows."""
