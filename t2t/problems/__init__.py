"""What can be learnt: one file a family of problems; every module here is found by the registry.

Begin with `base` and `text_problems`. `samples` says what a generator gets and yields, `filters` and `preprocessors`
what becomes of samples, `vocabularies` how these are learned, `split_files`, `archives` and `tfds` where raw data is.
"""
