"""Pages on runs: how they train, what data they learn from, what their models do.

Numbers are taken here; they are drawn in the browser by the scripts in `static/`, which ask no other host for anything.
"""
