"""Settings: what a configuration file may contain, how it is read, and which settings agree with each other.

May import base. Imports no torch.
Start reading at comparison.py: the settings of one experiment; loading.py reads them from YAML.
"""
