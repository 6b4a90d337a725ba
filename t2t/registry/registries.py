"""The registries: problems, models, hparams sets and their ranges, modalities, metrics. Each has its decorator."""

from typing import Any

from t2t.registry import tensor2tensor
from t2t.registry.registry import Registry

_CLASSICS = "t2t.models.classics"

PROBLEMS: Registry[Any] = Registry(
    "problem",
    "t2t.problems",
    bases=("t2t.problems.base.Problem",),
    reserved_suffixes=("_rev", "_copy", "_masked"),
    aliases=tensor2tensor.problems.ALIASES,
    missing=tensor2tensor.problems.MISSING,
)
MODELS: Registry[Any] = Registry(
    "model",
    "t2t.models",
    bases=("t2t.models.base.SequenceModel",),
    read_source=True,
    model_files=_CLASSICS,
    aliases=tensor2tensor.models.ALIASES,
    missing=tensor2tensor.models.MISSING,
)
HPARAMS: Registry[Any] = Registry(
    "hparams",
    "t2t.hparams",
    bases=(),
    model_files=_CLASSICS,
    aliases=tensor2tensor.hparams.ALIASES,
    missing=tensor2tensor.hparams.MISSING,
    families=tensor2tensor.hparams.FAMILIES,
)
HPARAMS_RANGES: Registry[Any] = Registry(
    "hparams_range", "t2t.hparams", bases=(), missing=tensor2tensor.hparams.MISSING_RANGES
)
MODALITIES: Registry[Any] = Registry(
    "modality",
    "t2t.layers.modalities",
    bases=("t2t.layers.modalities.base.Bottom", "t2t.layers.modalities.base.Top"),
    read_source=True,
)
METRICS: Registry[Any] = Registry("metric", "t2t.metrics", bases=(), read_source=True)
EXPORTERS: Registry[Any] = Registry("exporter", "t2t.formats.built_in", bases=(), read_source=True)
IMPORTERS: Registry[Any] = Registry("importer", "t2t.formats.built_in", bases=(), read_source=True)
REGISTRIES = (PROBLEMS, MODELS, HPARAMS, HPARAMS_RANGES, MODALITIES, METRICS, EXPORTERS, IMPORTERS)

register_problem = PROBLEMS.register
register_model = MODELS.register
register_hparams = HPARAMS.register
register_ranged_hparams = HPARAMS_RANGES.register
register_modality = MODALITIES.register
register_metric = METRICS.register
register_exporter = EXPORTERS.register
register_importer = IMPORTERS.register
