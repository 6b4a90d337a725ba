"""Makes runs of other toolkits' models; one module or package a format, listed in `formats`."""
