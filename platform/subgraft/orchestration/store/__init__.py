"""Steps and their artifacts, each of which is made once: fingerprints, records, the store."""
