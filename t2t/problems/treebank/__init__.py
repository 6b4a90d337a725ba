"""Treebanks as text to learn from: `reading` their files, `cleaning` trees, `linearisation` there and back."""
