"""Vocabularies: learn one from a corpus, read any, compare two."""
