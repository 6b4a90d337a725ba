"""The composition root: the one place where names become objects and parts are put together.

Begin with `config`, the options of a run. Training goes on with `experiment` (names, records, checks), `data`,
`training`; decoding with `loading`, `engines` and `evaluation`. `api` and `trained_api` are the Python functions.
"""
