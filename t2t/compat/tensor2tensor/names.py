"""Tensor2Tensor's names of metrics and of modalities."""

from enum import StrEnum


class Metrics(StrEnum):
    """Names of metrics; a problem that lists them has those of this project that are like them."""

    ACC = "accuracy"
    ACC_TOP5 = "accuracy_top5"
    ACC_PER_SEQ = "accuracy_per_sequence"
    ACC_MULTILABEL_MATCH3 = "accuracy_multilabel_match3"
    NEG_LOG_PERPLEXITY = "neg_log_perplexity"
    MASKED_NEG_LOG_PERPLEXITY = "masked_neg_log_perplexity"
    APPROX_BLEU = "approx_bleu_score"
    APPROX_SARI = "approx_sari_score"
    RMSE = "rmse"
    UNPADDED_MSE = "unpadded_mse"
    LOG_POISSON = "log_poisson"
    PEARSON = "pearson"
    R2 = "r_squared"
    ROUGE_2_F = "rouge_2_fscore"
    ROUGE_L_F = "rouge_L_fscore"
    EDIT_DISTANCE = "edit_distance"
    PREFIX_ACCURACY = "prefix_accuracy"
    WORD_ERROR_RATE = "word_error_rate"
    SET_PRECISION = "set_precision"
    SET_RECALL = "set_recall"
    SOFTMAX_CROSS_ENTROPY_ONE_HOT = "softmax_cross_entropy_one_hot"
    SIGMOID_ACCURACY_ONE_HOT = "sigmoid_accuracy_one_hot"
    SIGMOID_ACCURACY = "sigmoid_accuracy"
    SIGMOID_RECALL_ONE_HOT = "sigmoid_recall_one_hot"
    SIGMOID_PRECISION_ONE_HOT = "sigmoid_precision_one_hot"
    SIGMOID_CROSS_ENTROPY_ONE_HOT = "sigmoid_cross_entropy_one_hot"
    TWO_CLASS_ACCURACY = "two_class_accuracy"
    TWO_CLASS_LOG_LIKELIHOOD = "two_class_log_likelihood"
    ROC_AUC = "roc_auc"
    IMAGE_SUMMARY = "image_summary"
    DMOL_PERPLEXITY = "disc_mol_neg_log_perplexity"
    ABS_ERR = "mean_absolute_error"
    IMAGE_RMSE = "image_rmse"


class ModalityType:
    """Kinds of features; here they follow from the features of a problem."""

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
