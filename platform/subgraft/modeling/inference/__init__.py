"""Text from a finished model: beam search, its limits and its confidence."""
