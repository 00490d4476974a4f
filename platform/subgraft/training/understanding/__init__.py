"""Tasks of understanding: labels, spans, tags and ranks, predicted by a head on a pretrained model.

`registry.TASKS` has all tasks, `task.LabelledTask` what one answers, `objective` how one is trained and scored on dev.
"""
