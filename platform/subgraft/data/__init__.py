"""Corpora: where text comes from, cleaning, encoded text, batches, synthetic pairs, and the tasks' views of a corpus.

May import base, config, subwords.
Start reading at text/corpus.py: a corpus as a folder; sources/registry.py: the kinds of source.
"""
