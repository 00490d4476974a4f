"""XLNet (Yang et al., NeurIPS 2019): its family, its two streams, and permutation language modelling."""
