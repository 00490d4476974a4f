"""Subword vocabularies: learn, extend, trim and compare them, find similar tokens, allocate one to many languages.

May import base, config.
Start reading at vocabulary/tokenizer.py: one interface to SentencePiece, WordPiece and byte-level vocabularies.
"""
