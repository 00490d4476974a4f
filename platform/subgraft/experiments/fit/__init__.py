"""A model and two parallel files, nothing else: is a vocabulary of their own worth it, and the model if it is."""
