"""Injects faults into real processes: existing results must survive, and the same command must resume from them.

`python -m tests.faults [--times=N] [--json=F] [--only=NAME...] [--skip=NAME...]`
"""
