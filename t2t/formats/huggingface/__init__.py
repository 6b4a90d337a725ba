"""Imports models of the library transformers; `run` selects the module by `model_type` in config.json."""
