"""Parts that most readers never need, behind the entries of the registries: see README.md.

May import every other wing; none of them imports it.
"""
