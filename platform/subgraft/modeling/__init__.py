"""Pretrained models: families, loading and saving, conditioning on a source, inference, and exports.

May import base, config, subwords, data, evaluation.
Start reading at families/family.py: what a model family is; load.py: directories and hub ids to models.
"""
