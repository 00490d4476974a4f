"""The interfaces for users: the Python API, the command line, and the translation server.

May import everything.
Start reading at cli/__init__.py: the commands; api/: what they call.
"""
