"""Language models that read a source which need not be text (Ziegler et al., 2019): the models."""
