"""Modalities: bottoms turn features into vectors, tops predict features; bodies of models work on vectors alone.

Begin with `base`, which has those of tokens, classes and vectors, too; `selection` chooses them for a problem. Each
other file has one kind of feature.
"""
