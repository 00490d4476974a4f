"""Embeddings of new tokens: generators, initialisers, learned rows, and transplanting them into a model.

May import base, config, subwords, data, evaluation, modeling, training.
Start reading at transplanting/transplant.py: gives a model a new vocabulary; generators/generator.py: AVG, ATT, PATT.
"""
