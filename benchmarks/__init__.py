"""Measurements and comparisons with other programs: `python -m benchmarks NAME`, run from a checkout.

A benchmark is a module or package of this folder with `main(argv) -> exit status`. The first line of its docstring is
shown in the list of benchmarks.
"""
