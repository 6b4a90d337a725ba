"""Turns hparams sets of Tensor2Tensor into sets of this project, and back for reading."""

import logging
from typing import Any

from t2t.compat.tensor2tensor import model_sets
from t2t.compat.tensor2tensor.hparam import HParams, from_own_set
from t2t.errors import UserError
from t2t.formats.tensor2tensor.hparams import READ, translate
from t2t.hparams.base import HParams as OwnHParams
from t2t.registry import HPARAMS

log = logging.getLogger("t2t")

_OF_MACHINES = frozenset(
    (
        "batch_shuffle_size", "daisy_chain_variables", "initializer", "initializer_gain", "length_bucket_step",
        "min_length_bucket", "mlperf_mode", "no_data_parallelism", "summarize_grads", "summarize_vars",
        "symbol_modality_num_shards", "tpu_enable_host_call", "use_custom_ops", "use_pad_remover",
    )
)  # fmt: skip
"""Hparams of Tensor2Tensor about devices, logs and batches of a shape, without which a model learns the same."""


def their_set(name: str) -> HParams:
    """Returns a set with Tensor2Tensor's names: one of its Transformers, or the values of a set of this project."""
    function = vars(model_sets).get(name)
    made: HParams = function() if function is not None else from_own_set(name)()
    return made


def own_set(name: str, theirs: Any) -> OwnHParams:
    """Returns the set of this project for one that a plug-in has made; logs what is left out.

    Raises:
        UserError: it is no set, or describes a network that does not exist here.
    """
    if isinstance(theirs, OwnHParams):
        return theirs
    if not isinstance(theirs, HParams):
        raise UserError(
            f"hparams set {name!r} returned {type(theirs).__name__}", "its function must end with `return hparams`"
        )
    if theirs.own_set:
        hparams, lost = _changed_set(theirs)
    else:
        hparams, warnings = translate(theirs.values(), attention_bias=False, what=f"hparams set {name!r}")
        hparams = hparams.replace(target_space_embedding=False)  # problems have no number of their target space here
        unread = sorted(theirs.changed - READ - _OF_MACHINES)
        lost = [*warnings, *(f"{one}={theirs.get(one)!r}" for one in unread)]
    if lost:
        log.warning("hparams set %s: without a counterpart here and left out: %s", name, "; ".join(lost))
    return hparams


def _changed_set(theirs: HParams) -> tuple[OwnHParams, list[str]]:
    """Returns the set that the values began with, with those changed that it has; and the others."""
    own: OwnHParams = HPARAMS.get(theirs.own_set)()
    known = dict(own.items())
    changes = {name: theirs.get(name) for name in theirs.changed if name in known}
    return own.replace(**changes), [f"{name}={theirs.get(name)!r}" for name in sorted(theirs.changed - set(known))]
