"""Files of the world: images, sound, archives, data sets of TensorFlow Datasets; read without running their code."""
