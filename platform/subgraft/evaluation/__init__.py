"""Metrics with intervals and significance, the report of a comparison, and human evaluation.

May import base, config, subwords, data.
Start reading at metrics/scores.py: BLEU, chrF and the others; reporting/report.py: the report.
"""
