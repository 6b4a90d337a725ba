"""Tensor2Tensor's names of modalities; here they follow from the features of a problem."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of


class ModalityType:
    """Kinds of features."""

    AUDIO, AUDIO_SPECTRAL, CLASS_LABEL, IDENTITY = "audio", "audio_spectral", "class_label", "identity"
    IDENTITY_SYMBOL, IMAGE, MULTI_LABEL, ONE_HOT_CLASS_LABEL = (
        "identity_symbol", "image", "multi_label", "one_hot_class_label",
    )  # fmt: skip
    REAL, REAL_L2_LOSS, SIGMOID_CLASS_LABEL, SOFTMAX_AVERAGE_POOLING_CLASS_LABEL = (
        "real", "real_l2_loss", "sigmoid_class_label", "softmax_average_pooling_class_label",
    )  # fmt: skip
    SPEECH_RECOGNITION, SYMBOL, SYMBOL_ONE_HOT, SYMBOL_WEIGHTS_ALL, VIDEO = (
        "speech_recognition", "symbol", "symbol_one_hot", "symbol_weights_all", "video",
    )  # fmt: skip


__getattr__ = placeholders_of(__name__)
