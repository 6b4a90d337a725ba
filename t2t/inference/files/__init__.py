"""Decoding a file: one output line for each input line, window by window, so that a crash loses one window at most.

Begin in `windows.py`; `decoding.py` and `scoring.py` say what is done with a window, `shards.py` divides and joins.
"""
