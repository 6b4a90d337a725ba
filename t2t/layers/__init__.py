"""Building blocks of models, in `keras.ops` alone; they take numbers and tensors, never hparams."""
