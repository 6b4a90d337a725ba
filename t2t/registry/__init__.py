"""Names of problems, models, hparams sets, modalities and metrics; plug-ins. Start with `registry`."""

from t2t.registry.registry import (
    HPARAMS,
    METRICS,
    MODALITIES,
    MODELS,
    PROBLEMS,
    REGISTRIES,
    Entry,
    RegistrationError,
    Registry,
    read_registrations,
    register_hparams,
    register_metric,
    register_modality,
    register_model,
    register_problem,
    snake_case,
)

__all__ = [
    "HPARAMS",
    "METRICS",
    "MODALITIES",
    "MODELS",
    "PROBLEMS",
    "REGISTRIES",
    "Entry",
    "RegistrationError",
    "Registry",
    "read_registrations",
    "register_hparams",
    "register_metric",
    "register_modality",
    "register_model",
    "register_problem",
    "snake_case",
]
