"""Treebanks as text: `reading` their files, `cleaning` trees, `linearisation` to labels and back."""
