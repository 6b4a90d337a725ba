"""The composition root: the one place where names become objects and parts are put together.

Read in the order of a run: `names` (what was asked for), `data` (generated data), `training`, `loading`.
"""
