"""Web pages about runs: their training, their data and their models.

The data of figures is computed here and drawn in the browser by the scripts in `static/`, which contact no other host.
"""
