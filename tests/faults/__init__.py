"""Faults injected into real processes: what was made before stays, and the same command resumes from it.

`python -m tests.faults [--times=N] [--json=F] [--only=NAME...] [--skip=NAME...]`
"""
