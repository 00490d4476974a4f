"""Small tools that every wing uses: errors, files, JSON, locks, limits, redaction, the terminal.

Imports nothing of Subgraft.
Start reading at errors.py: the two exceptions a command ends with, and their exit codes.
"""
