"""Names of problems, models, hparams sets and ranges, modalities and metrics; plug-ins. Start with `registry`."""

from t2t.registry.entry import Entry, RegistrationError, snake_case
from t2t.registry.registries import (
    EXPORTERS,
    HPARAMS,
    HPARAMS_RANGES,
    IMPORTERS,
    METRICS,
    MODALITIES,
    MODELS,
    PROBLEMS,
    REGISTRIES,
    register_exporter,
    register_hparams,
    register_importer,
    register_metric,
    register_modality,
    register_model,
    register_problem,
    register_ranged_hparams,
)
from t2t.registry.registry import Registry
from t2t.registry.source import read_registrations

__all__ = [
    "EXPORTERS",
    "HPARAMS",
    "HPARAMS_RANGES",
    "IMPORTERS",
    "METRICS",
    "MODALITIES",
    "MODELS",
    "PROBLEMS",
    "REGISTRIES",
    "Entry",
    "RegistrationError",
    "Registry",
    "read_registrations",
    "register_exporter",
    "register_hparams",
    "register_importer",
    "register_metric",
    "register_modality",
    "register_model",
    "register_problem",
    "register_ranged_hparams",
    "snake_case",
]
