"""What each stage is asked for: its recipe, which is its identity. Nothing here imports what a stage runs on."""
