"""ERNIE 3 (Baidu; Sun et al., 2021): its family, its memory, and its objective on triples."""
