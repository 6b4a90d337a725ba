"""A registry for each kind of thing that has a name, and its decorator, for built-ins and plug-ins alike.

A new kind is two lines here and one in `t2t/__init__.py`. How names are found is in `registry.py`, how plug-ins are
loaded in `plugins.py` and `usr_package.py`, what is checked in their classes in `overrides.py`.
"""

from typing import Any

from t2t.registry import tensor2tensor
from t2t.registry.entry import Entry, RegistrationError, read_registrations, snake_case
from t2t.registry.registry import Registry

__all__ = ["Entry", "RegistrationError", "Registry", "read_registrations", "snake_case"]

_CLASSICS = "t2t.models.classics"

MODELS: Registry[Any] = Registry(
    "model",
    "t2t.models",
    bases=("t2t.models.base.SequenceModel",),
    read_source=True,
    model_files=_CLASSICS,
    theirs=tensor2tensor.MODELS,
)
HPARAMS: Registry[Any] = Registry(
    "hparams",
    "t2t.hparams",
    title="HParams",
    bases=(),
    called=lambda: None,
    model_files=_CLASSICS,
    theirs=tensor2tensor.HPARAMS,
)
HPARAMS_RANGES: Registry[Any] = Registry(
    "hparams_range", "t2t.hparams", title="HParams ranges", bases=(), called=lambda rhp: None,
    theirs=tensor2tensor.RANGES,
)  # fmt: skip
MODALITIES: Registry[Any] = Registry(
    "modality",
    "t2t.layers.modalities",
    title="Modalities",
    bases=("t2t.layers.modalities.base.Bottom", "t2t.layers.modalities.base.Top"),
    read_source=True,
)
OPTIMIZERS: Registry[Any] = Registry(
    "optimizer", "t2t.training.optimizers", bases=(), called=lambda hparams, *, learning_rate, name: None,
    read_source=True,
)  # fmt: skip
SCHEDULES: Registry[Any] = Registry(
    "schedule", "t2t.training.schedules", bases=(), called=lambda hparams, update: None, read_source=True
)
OBJECTIVES: Registry[Any] = Registry(
    "objective", "t2t.training.objectives", bases=("t2t.training.objectives.TrainingObjective",),
    called=lambda hparams: None, read_source=True,
)  # fmt: skip
SEARCH_METHODS: Registry[Any] = Registry(
    "search_method", "t2t.search.methods", bases=("t2t.search.methods.SearchMethod",), called=lambda: None,
    read_source=True,
)  # fmt: skip
METRICS: Registry[Any] = Registry(
    "metric", "t2t.metrics", bases=(), called=lambda hypotheses, references, *, sources=None: None, read_source=True
)
EXPORTERS: Registry[Any] = Registry(
    "exporter", "t2t.formats.built_in", bases=(), called=lambda translator, job: None, read_source=True
)
IMPORTERS: Registry[Any] = Registry(
    "importer", "t2t.formats.built_in", bases=(), called=lambda request: None, read_source=True
)
VOCABULARIES: Registry[Any] = Registry(
    "vocabulary", "t2t.text", title="Vocabularies", bases=("t2t.text.encoder.TextEncoder",), named_by="kind"
)
FEATURES: Registry[Any] = Registry("feature", "t2t.features", bases=("t2t.features.feature.Feature",))
FILTERS: Registry[Any] = Registry("filter", "t2t.problems.filters", bases=(), called=lambda texts, number: None)
PREPROCESSORS: Registry[Any] = Registry(
    "preprocessor", "t2t.problems.preprocessors", bases=("t2t.problems.preprocessors.Preprocessor",)
)
PROBLEMS: Registry[Any] = Registry(
    "problem",
    "t2t.problems",
    bases=("t2t.problems.base.Problem",),
    reserved_suffixes=("_rev", "_copy", "_masked"),
    theirs=tensor2tensor.PROBLEMS,
)
REGISTRIES = tuple(one for one in globals().values() if isinstance(one, Registry))
"""All of them, in the order of `--registry_help`."""

register_model = MODELS.register
register_hparams = HPARAMS.register
register_ranged_hparams = HPARAMS_RANGES.register
register_modality = MODALITIES.register
register_optimizer = OPTIMIZERS.register
register_schedule = SCHEDULES.register
register_objective = OBJECTIVES.register
register_search_method = SEARCH_METHODS.register
register_metric = METRICS.register
register_exporter = EXPORTERS.register
register_importer = IMPORTERS.register
register_vocabulary = VOCABULARIES.register
register_feature = FEATURES.register
register_filter = FILTERS.register
register_preprocessor = PREPROCESSORS.register
register_problem = PROBLEMS.register
