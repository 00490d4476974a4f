"""ERNIE 1 and 2 (Baidu; Sun et al., 2019, and AAAI 2020): their family, and their objectives of labels."""
