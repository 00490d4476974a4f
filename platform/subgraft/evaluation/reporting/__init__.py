"""The report of a comparison: its set-up, its results, and their significance."""
