"""Hparam search: a study has many trials, each an ordinary run with different hparams from a range.

Begin with `searching`, the way of a study from its request to its results. `study` keeps trials in Optuna's storage,
`tuner` trains them in processes of their own.
"""
