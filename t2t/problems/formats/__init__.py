"""External formats: images, sound, archives, TensorFlow Datasets; files are read without running code in them."""
