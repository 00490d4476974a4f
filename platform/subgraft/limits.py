"""How much there may be of what somebody hands in: more than honest use needs, less than stops a machine.

Limits that a user may have to raise are settings, and stand where these are explained.
"""

from __future__ import annotations

# Of a configuration: its file, and its values with aliases written out.
CONFIGURATION_BYTES = 1024**2
CONFIGURATION_VALUES = 100_000
# Values inside of values, in YAML and JSON. Whoever reads them calls itself for each.
NESTING = 64
# What a model, its vocabulary and its decoding hold in memory at once.
LARGEST_VOCABULARY = 1_000_000
WIDEST = 65_536
MOST_LAYERS = 1000
LONGEST_SEQUENCE = 1024**2
LARGEST_BEAM = 1000
# Of SQuAD's JSON: every question of a passage reads all of it.
PASSAGE_CHARACTERS = 200_000
PASSAGE_QUESTIONS = 1000
# No number in a configuration means more; floats hold all counts up to the second one, and indices of tensors too.
LARGEST_NUMBER = 10**18
LARGEST_COUNT = 2**31 - 1
