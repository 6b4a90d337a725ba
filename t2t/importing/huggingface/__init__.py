"""Models of the library transformers: `run` finds the module of an architecture by `model_type` of config.json."""
