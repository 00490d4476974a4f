"""Where text comes from: a reader for each kind of source, one table of them, and building a corpus."""
