"""Small tools that every wing uses: errors, files, JSON, locks, limits, redaction, the terminal.

Imports nothing of Subgraft.
Start reading at errors.py: the exceptions that end a command, and their exit codes.
"""
