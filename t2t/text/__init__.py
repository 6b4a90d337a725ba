"""Vocabularies: strings to ids and back. `encoder` has their base class; `register_vocabulary` registers a kind.

`sentencepiece`, `subword` (learned by `subword_build`), `words`, `byte` and `label` have the kinds, `imported` those
that come with models of other toolkits. `vocabulary_files` has their files, `sample` the text that they are
learned from.
"""
