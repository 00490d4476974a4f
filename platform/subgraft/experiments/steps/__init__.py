"""The steps of an experiment by subject: objects that hold one another, each of which can be built and tested alone."""
