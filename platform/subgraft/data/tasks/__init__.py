"""Downstream tasks: what one makes of a corpus whose files hold more than two texts side by side."""
