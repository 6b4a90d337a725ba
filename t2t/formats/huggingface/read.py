"""Reads a model's folder with the module for the architecture in its config.json."""

from collections.abc import Callable

from t2t.errors import UserError
from t2t.formats.folder import ModelFolder
from t2t.formats.huggingface import language_models, marian, t5
from t2t.formats.importer import LANGUAGES, ForeignRun, ImportRequest

MODEL_TYPES: dict[str, Callable[[ModelFolder, ImportRequest], ForeignRun]] = {
    "marian": marian.read,
    "t5": t5.read,
    "mt5": t5.read,
    "m2m_100": language_models.read,
    "mbart": language_models.read,
}
"""`model_type` in config.json -> module."""
_WITH_LANGUAGES = ("m2m_100", "mbart")


def read(request: ImportRequest) -> ForeignRun:
    """Reads a model's folder.

    Raises:
        UserError: a file is missing or damaged, or the architecture cannot be imported.
    """
    folder = ModelFolder(request.model_dir)
    model_type = folder.config.get("model_type")
    if not isinstance(model_type, str) or model_type not in MODEL_TYPES:
        raise UserError(
            f"config.json has model_type={model_type!r}",
            f"models that can be imported are {', '.join(MODEL_TYPES)}",
            option="model_dir",
            value=folder.path,
        )
    asked = [f"--{name}" for name in LANGUAGES if request.problem.options.changed().get(name)]
    if model_type not in _WITH_LANGUAGES and asked:
        raise UserError(
            f"{', '.join(asked)}: a model of model_type={model_type!r} has no codes of languages", "leave that out"
        )
    return MODEL_TYPES[model_type](folder, request)
