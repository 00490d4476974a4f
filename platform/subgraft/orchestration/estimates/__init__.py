"""What a run will take, before it is run: updates, memory, time."""
