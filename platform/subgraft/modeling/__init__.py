"""Pretrained models through transformers: building, loading, and the sides where their tables are."""
