"""The methods of new embeddings: `registry` lists them, and a file has one of them, or several of a kind."""
