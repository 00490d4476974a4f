"""The report of a comparison: the set-up, what came out, and how sure that is."""
