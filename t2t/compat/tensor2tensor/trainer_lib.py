"""Tensor2Tensor's entry points for Python, as far as notebooks use them: hparams, seeds, plug-ins."""

import random
from typing import Any

import numpy as np

from t2t.compat.tensor2tensor.hparam import HParams
from t2t.compat.tensor2tensor.sets import their_set
from t2t.registry.plugins import load_plugins


def create_hparams(
    hparams_set: str, hparams_overrides_str: str = "", data_dir: Any = None, problem_name: str | None = None,
    **unused: Any,
) -> HParams:  # fmt: skip
    """Returns a set with overrides, the data folder and the problem."""
    hparams = their_set(hparams_set)
    hparams.add_hparam("data_dir", str(data_dir) if data_dir else None)
    if hparams_overrides_str:
        hparams = hparams.parse(hparams_overrides_str)
    if problem_name:
        add_problem_hparams(hparams, problem_name)
    return hparams


def set_random_seed(seed: int) -> None:
    """Seeds the generators of Python, numpy and TensorFlow."""
    import tensorflow as tf

    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)


def add_problem_hparams(hparams: HParams, problem_name_or_instance: Any) -> None:
    """Adds a problem to a set."""
    from t2t.compat.tensor2tensor.known_problems import own_problem

    given = problem_name_or_instance
    problem = own_problem(given) if isinstance(given, str) else given
    hparams.add_hparam("problem", problem)
    hparams.add_hparam("problem_hparams", HParams(vocabulary={}, modality={}, vocab_size={}))


def import_usr_dir(usr_dir: str | None) -> None:
    """Imports a folder of a plug-in."""
    load_plugins(usr_dir or None)
