"""t2t: sequence models by name, on TensorFlow 2 and Keras 3."""

from t2t.api import export_model, generate_data, load, registered, train

__version__ = "0.1.0"
__all__ = ["export_model", "generate_data", "load", "registered", "train"]
