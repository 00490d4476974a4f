"""Ways of conditioning a language model on a source: one file each, or one for several that share their code."""
