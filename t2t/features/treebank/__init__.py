"""Treebanks as text: `reading` their files, `trees` and their cleaning, `linearisation` to labels and back."""
