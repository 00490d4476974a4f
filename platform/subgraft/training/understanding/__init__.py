"""Tasks of understanding: labels, spans, tags and ranks, predicted by a head on a pretrained model.

`data.tasks` has an entry for each task, `task.LabelledTask` is the interface of their classes, and `objective` trains
one and scores it on dev.
"""
