"""Tensor2Tensor's registry: its decorators register in that of this project, its functions look up there."""

import functools
from collections.abc import Callable
from typing import Any

from t2t.compat.tensor2tensor.adapter import adapt
from t2t.compat.tensor2tensor.known_problems import own_problem
from t2t.compat.tensor2tensor.placeholders import advice_on, described, is_placeholder
from t2t.compat.tensor2tensor.sets import own_set, their_set
from t2t.registry import HPARAMS, HPARAMS_RANGES, MODELS, PROBLEMS, snake_case

default_name = snake_case


def _decorator(register: Callable[[str, Any], None]) -> Callable[..., Any]:
    """Returns a decorator with or without a name."""

    def decorate(name: Any = None) -> Any:
        if callable(name):
            return decorate()(name)

        def take(value: Any) -> Any:
            register(name or snake_case(value.__name__), value)
            return value

        return take

    return decorate


def _register_problem(name: str, theirs: Any) -> None:
    if is_placeholder(theirs):
        PROBLEMS.say_missing(name, f"{described(theirs)}; {advice_on(theirs)}")
        return
    PROBLEMS.register(name)(adapt(theirs, name))


def _register_hparams(name: str, theirs: Callable[[], Any]) -> None:
    @functools.cache  # what is left out is logged once
    def made() -> Any:
        return own_set(name, theirs())

    @functools.wraps(theirs)
    def make() -> Any:
        return made().replace()

    HPARAMS.register(name)(make)


def _register_model(name: str, theirs: Any) -> None:
    if is_placeholder(theirs):
        MODELS.say_missing(name, f"{name} is a network of TensorFlow 1; {advice_on(theirs)}")
        return
    MODELS.register(name)(theirs)


def _register_nothing(name: str, theirs: Any) -> None:
    """Ranges, optimizers, modalities and attacks of Tensor2Tensor have their own forms here."""


register_problem = register_base_problem = _decorator(_register_problem)
register_hparams = _decorator(_register_hparams)
register_model = _decorator(_register_model)
register_ranged_hparams = register_optimizer = register_attack = register_pruning_params = _decorator(_register_nothing)
register_symbol_modality = register_generic_modality = register_image_modality = _decorator(_register_nothing)
register_audio_modality = register_video_modality = register_real_modality = _decorator(_register_nothing)
register_class_label_modality = register_env_problem = _decorator(_register_nothing)


def problem(problem_name: str, **unused: Any) -> Any:
    """Returns a problem, with Tensor2Tensor's methods."""
    return own_problem(problem_name)


def model(model_name: str) -> Any:
    """Returns the class of a model, which is made of hparams and a mode and answers with `infer`."""
    from t2t.compat.tensor2tensor.trained import trained_model

    return trained_model(model_name)


def hparams(name: str) -> Any:
    """Returns a set with Tensor2Tensor's names of hparams."""
    return their_set(name)


def list_problems() -> list[str]:
    """Returns the names of all problems."""
    return PROBLEMS.names()


available = list_base_problems = list_problems
"""Of the modules `problems` and `registry`."""


def list_models() -> list[str]:
    """Returns the names of all models."""
    return MODELS.names()


def list_hparams(prefix: str | None = None) -> list[str]:
    """Returns the names of all sets, or of those that begin so."""
    return [name for name in HPARAMS.names() if name.startswith(prefix or "")]


def list_ranged_hparams() -> list[str]:
    """Returns the names of all ranges."""
    return HPARAMS_RANGES.names()
