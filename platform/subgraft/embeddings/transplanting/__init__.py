"""A model around another vocabulary: new tables, token ids, attached tables, and how good new rows are."""
