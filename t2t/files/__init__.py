"""Files: atomic writes and locks, lines of text, sealed records, paths, progress. Begin with `atomic`.

`paths` turns what users name into local paths, `remote` mirrors object stores, `lines` reads text, `output` writes what
can be resumed, and `trust` checks what strangers may have written.
"""
