"""Hparams: fields with bounds, sets of values under registered names, and the text of `--hparams`.

Start with `base` (a set) and `groups` (the fields of every model); `field` declares and checks one, `override` reads
text. The sets of a model are in the file of its name; those of the Transformer also in `transformer_variants` (other
networks) and `transformer_tasks` (other tasks).
"""
