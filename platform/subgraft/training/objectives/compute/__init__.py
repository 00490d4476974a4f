"""What objectives compute: examples in batches, losses, dev scores, and views that train generators."""
