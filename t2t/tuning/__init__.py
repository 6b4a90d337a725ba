"""Hparam search: a study has many trials, each an ordinary run with different hparams from a range."""
