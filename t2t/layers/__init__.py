"""Building blocks of models, written only with `keras.ops`; they take numbers and tensors, never hparams."""
