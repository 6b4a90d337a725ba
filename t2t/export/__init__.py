"""A trained model in the forms in which other programs run it: TensorFlow SavedModel, CTranslate2, ONNX."""
