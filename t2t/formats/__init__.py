"""Converts models of other toolkits to runs; one module or package per format, listed in `formats`."""
