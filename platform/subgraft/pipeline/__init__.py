"""The stages of an experiment: each stage reads artifacts, calls one wing, writes one artifact.

May import every wing above it in this list: base, config, subwords, data, evaluation, modeling, training, embeddings.
Start reading at stages/__init__.py: the table of stages.
"""
