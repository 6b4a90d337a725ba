"""Ranges of hparams of the Transformer, for `t2t-tune --hparams_range`."""

from t2t.hparams.ranges import RangedHParams
from t2t.registry import register_ranged_hparams


@register_ranged_hparams
def transformer_base_range(rhp: RangedHParams) -> None:
    """Rate, warm-up and Adam's betas around transformer_base: Tensor2Tensor's range of this name."""
    # Rates are factors on the paper's formula here; there is no initializer_gain, and Adam reads no weight_decay.
    rhp.set_float("learning_rate", 0.3, 3.0, scale=rhp.LOG_SCALE)
    rhp.set_discrete("learning_rate_warmup_steps", [1000, 2000, 4000, 8000, 16000])
    rhp.set_float("optimizer_adam_beta1", 0.85, 0.95)
    rhp.set_float("optimizer_adam_beta2", 0.97, 0.99)


@register_ranged_hparams
def transformer_quickstart_range(rhp: RangedHParams) -> None:
    """How transformer_quickstart learns: rate, warm-up, batch, dropout, smoothing; the network stays as it is."""
    rhp.set_float("learning_rate", 0.001, 0.016, scale=rhp.LOG_SCALE)
    rhp.set_discrete("learning_rate_warmup_steps", [25, 50, 100, 200])
    rhp.set_discrete("batch_size", [1024, 2048])
    rhp.set_discrete("layer_prepostprocess_dropout", [0.0, 0.05, 0.1])
    rhp.set_discrete("label_smoothing", [0.0, 0.05, 0.1])
    rhp.set_float("optimizer_adam_beta2", 0.95, 0.999)
