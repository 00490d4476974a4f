"""What this project exists for: similar tokens, re-segmentation, generators, distillation, transplanting."""
