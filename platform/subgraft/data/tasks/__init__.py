"""Downstream tasks whose corpus is more than two parallel texts, and how a task turns it into pairs."""
