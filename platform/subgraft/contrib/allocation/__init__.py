"""How many subwords each language of a multilingual vocabulary gets (VoCap: Zheng et al., EMNLP 2021)."""
