"""Exports trained models for other programs: TensorFlow SavedModel, CTranslate2, ONNX, LiteRT, Hugging Face, Marian."""
