"""Modalities: bottoms turn features into vectors, tops predict features; bodies of models work on vectors alone."""
