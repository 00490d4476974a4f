"""The one training loop, plain PyTorch or DeepSpeed under it, with checkpoints and exact resume."""
