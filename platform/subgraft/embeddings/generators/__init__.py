"""Generators of embeddings (AVG, ATT, PATT), the simulation of unseen tokens, and the loss they are trained on."""
