"""Upstream losses: what a model was pretrained on, and a generator is trained on."""
