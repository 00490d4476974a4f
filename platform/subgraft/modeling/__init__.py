"""Pretrained models: families, loading and saving, conditioning on a source, inference, and exports.

May import base, config, subwords, data, evaluation. Start reading at families/family.py: the interface of a model
family; load.py: from directories and hub ids to models.
"""
