"""t2t: sequence models by name, on TensorFlow 2 and Keras 3."""

__version__ = "0.1.0"
