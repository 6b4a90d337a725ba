"""Semantic breaks of the code, each in one place: the default tests must notice them.

`python -m tests.mutation [--only NAME...] [--json F] [--timeout S]`
"""
