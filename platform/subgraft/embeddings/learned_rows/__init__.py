"""Rows of new tokens learnt on the task's text: Token Distillation, likelihood matching and VocADT."""
