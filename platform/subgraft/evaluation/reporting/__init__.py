"""The report of a comparison: what was done, what came out, and how sure that is."""
