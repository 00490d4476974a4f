"""Bounds of settings, and of values in examples: above any legitimate use, and low enough for memory and arithmetic."""

# Sizes of models, vocabularies and searches, which are held in memory.
MIN_VOCABULARY_SIZE = 50
MAX_VOCABULARY_SIZE = 1_000_000
MIN_TRAINING_CHARACTERS = 20_000  # of a fit of text: fewer are not enough for ten updates
MAX_WIDTH = 65_536
MAX_LAYERS = 1000
MAX_SEQUENCE_LENGTH = 1024**2
MAX_BEAM_SIZE = 1000
# Values of labelled examples. Squares of larger numbers leave the range of a training; gains are powers of two.
MAX_VALUE = 1e15
MAX_RELEVANCE = 100
# Numbers in configurations. Every count up to MAX_COUNT is exact as a float and valid as a tensor index.
MAX_NUMBER = 10**18
MAX_COUNT = 2**31 - 1
