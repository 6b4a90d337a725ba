"""Searching for hparams: a study has many trials, each an ordinary run with other hparams of a range."""
