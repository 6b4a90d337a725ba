"""Decoding a file: one output line for each input line, window by window, so that a crash loses one window at most."""
