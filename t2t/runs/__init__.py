"""The composition root: the one place where names become objects and parts are put together.

Begin with `config`, the options of a run. `experiment` is the way from them to a trained run: names, records and checks
in `resolving`, then `data` and `training`; decoding goes on with `loading`, `engines` and `evaluation`. `api` and
`trained_api` are the Python functions.
"""
