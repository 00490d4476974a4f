"""Where text comes from: a reader for each kind of source and one table, and a corpus built from what they find."""
