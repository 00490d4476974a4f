"""`subgraft fit`: from a model and two parallel files to advice on a new vocabulary, and the better model."""
