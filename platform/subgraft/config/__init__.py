"""Settings: the contents of a configuration file, how it is read, and which settings can be combined.

May import base; experiment/, a floor above embeddings, may import the wings up to it. Imports no torch.
Start reading at experiment/comparison.py: the settings of one experiment; loading.py reads them from YAML.
"""
