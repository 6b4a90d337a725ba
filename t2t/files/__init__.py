"""Files: atomic writes and locks, lines of text, sealed records, paths, progress. Start with `atomic`."""
