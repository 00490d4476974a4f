"""Objectives: the data and loss of pretraining and finetuning, and the views on them that train generators."""
