"""Imports translators of fairseq: a checkpoint, two dictionaries, and codes or a model that cut words."""
