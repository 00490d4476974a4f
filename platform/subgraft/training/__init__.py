"""Training: objectives (data and loss), the one training loop, engines, checkpoints, schedules, precision.

May import base, config, subwords, data, evaluation, modeling.
Start reading at loop.py: the training loop; objectives/compute/interface.py: the interface of an objective.
"""
