"""Steps and what they made: fingerprints, records, and artifacts that are each made once."""
