"""Building blocks of models, written only with `keras.ops`; they take numbers and tensors, never hparams."""

import keras

# Layers count on these; a user's ~/.keras/keras.json may have others.
keras.config.set_floatx("float32")
keras.config.set_image_data_format("channels_last")
