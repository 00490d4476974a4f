"""Translation that reads the preceding sentences (HAN encoder: Miculicich et al., EMNLP 2018)."""
