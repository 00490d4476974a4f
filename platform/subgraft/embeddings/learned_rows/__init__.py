"""Embeddings of new tokens that are trained on the task's text: Token Distillation, likelihood matching, VocADT."""
