"""Rows of new tokens learnt on the task's text: Token Distillation and likelihood matching."""
