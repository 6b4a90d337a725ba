"""What the project measures and compares: `python -m benchmarks NAME`, from a checkout.

A benchmark is a module or package of this folder with `main(argv) -> exit status`; its docstring's first line says what
it does.
"""
