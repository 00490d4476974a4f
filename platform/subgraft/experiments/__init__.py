"""Whole experiments: a configuration as steps, sessions that run them, `fit`, and hyperparameter search.

May import base to orchestration.
Start reading at pipeline.py: an experiment as steps; session.py: plan, run, record, report.
"""
