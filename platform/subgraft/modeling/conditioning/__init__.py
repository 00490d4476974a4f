"""Causal language models conditioned on a source, text or not (Ziegler et al., 2019), in variants."""
