"""Settings: the contents of a configuration file, how it is read, and which settings can be combined.

May import base. Imports no torch.
Start reading at comparison.py: the settings of one experiment; loading.py reads them from YAML.
"""
