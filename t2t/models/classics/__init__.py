"""The museum: systems from before and beside the Transformer, one file each with its hparams sets, layers and network.

Each file is imported as that of a user's plug-in is: first its sets, so that hparams are checked without Keras; its
network when the model is built.
"""

from t2t.registry.usr_package import split_model_files

split_model_files(__name__)
