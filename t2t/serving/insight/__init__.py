"""Pictures of what a model does: its attention, its beam, the tree or the classes that it answers with, its training.

Numbers are taken here; they are drawn in the browser by the scripts in `static/`, which ask no other host for anything.
"""
