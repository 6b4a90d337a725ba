"""Exports runs as a SavedModel: begin at `write.py`; `served.py` is the graph, `vocabularies.py` reads its texts."""
