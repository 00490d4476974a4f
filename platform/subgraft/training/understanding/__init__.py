"""Tasks of understanding: labels, spans, tags and ranks, predicted by a head on a pretrained model.

`registry.TASKS` has all tasks, `task.LabelledTask` is their interface, and `objective` trains one and scores it on dev.
"""
