"""Named variants of hparams sets, in groups, that `python -m benchmarks quality` trains."""

import dataclasses
import functools

from benchmarks.models import SUFFIX, model_of, sets
from t2t.registry import HPARAMS

TINY = "transformer" + SUFFIX


@dataclasses.dataclass(frozen=True)
class Variant:
    """An hparams set, optionally with changes."""

    name: str
    """Name of its folder, and in tables."""
    model: str
    hparams_set: str
    changes: str = ""
    """Changed hparams, a value of `--hparams`."""
    paper: tuple[float, float] | None = None
    """Perplexity and BLEU of the corresponding row in the paper's Table 3."""


def _tiny(name: str, changes: str, perplexity: float, bleu: float) -> Variant:
    return Variant(name, "transformer", TINY, changes, (perplexity, bleu))


TABLE3 = (
    _tiny("base", "", 4.92, 25.8),
    # (A) heads: 4 where the paper has 8
    _tiny("h1", "num_heads=1", 5.29, 24.9),
    _tiny("h2", "num_heads=2", 5.00, 25.5),
    _tiny("h8", "num_heads=8", 4.91, 25.8),
    _tiny("h16", "num_heads=16", 5.01, 25.4),
    # (B) channels of a head's keys: 32 where the paper has 64
    _tiny("k8", "attention_key_channels=32", 5.16, 25.1),
    _tiny("k16", "attention_key_channels=64", 5.01, 25.4),
    # (C) layers: 4 for 6; d: 128 for 512; d_ff: 256 for 2,048
    _tiny("l1", "num_hidden_layers=1", 6.11, 23.7),
    _tiny("l3", "num_hidden_layers=3", 5.19, 25.3),
    _tiny("l6", "num_hidden_layers=6", 4.88, 25.5),
    _tiny("d64", "hidden_size=64", 5.75, 24.5),
    _tiny("d256", "hidden_size=256", 4.66, 26.0),
    _tiny("ff128", "filter_size=128", 5.12, 25.4),
    _tiny("ff512", "filter_size=512", 4.75, 26.2),
    # (D) dropout: 0.3 for 0.1; label smoothing: 0.1
    _tiny("dropout_0", "layer_prepostprocess_dropout=0", 5.77, 24.6),
    _tiny("dropout_0.4", "layer_prepostprocess_dropout=0.4", 4.95, 25.5),
    _tiny("smoothing_0", "label_smoothing=0", 4.67, 25.3),
    _tiny("smoothing_0.2", "label_smoothing=0.2", 5.47, 25.7),
    # (E)
    _tiny("learned_positions", "positions=learned", 4.92, 25.7),
)
"""Single changes of the Multi30k Transformer, each with the figures of the corresponding row in the paper's Table 3."""


@functools.cache
def groups() -> dict[str, tuple[Variant, ...]]:
    """Returns the groups by name: `models`, all translation models, and `table3`."""
    return {"models": tuple(_of_set(name) for name in sets()), "table3": TABLE3}


def _of_set(name: str) -> Variant:
    """Returns a model's set; Transformers get norms before their layers.

    With norms after them, a short training hardly gets beyond frequent words.
    """
    norms_after = getattr(HPARAMS.get(name)(), "norm_position", "") == "post"
    return Variant(name, model_of(name), name, "norm_position=pre" if norms_after else "")
