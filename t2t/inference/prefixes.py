"""Checks the given ids of inputs, of outputs, and of what outputs begin with."""

from collections.abc import Sequence

from t2t.errors import ArgumentError, UserError
from t2t.hparams.groups import DecodeHParams
from t2t.inference.model_facts import ModelFacts
from t2t.inference.rows import Row, max_sequence_ids
from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.features import FeatureKind


def check_prefix(model: ModelFacts, hparams: DecodeHParams, prefix: Sequence[int]) -> None:
    """Raises UserError if an output cannot begin with these ids, or there are too many of them."""
    longest = max_sequence_ids(model, hparams) - 1
    check_ids(model, prefix, "a beginning")
    if len(prefix) >= longest:
        raise UserError(
            f"a beginning with {len(prefix)} ids: an output may begin with fewer than {longest}; give a shorter one"
        )


def check_ids(model: ModelFacts, ids: Sequence[int], what: str) -> None:
    """Raises UserError if no output has these ids before end of sequence; `what` they are begins the message."""
    size = model.spec.targets.vocab_size
    wrong = [token for token in ids if not PAD_ID < token < size or token == EOS_ID]
    if wrong:
        without_end = ", and leave out the end of sequence" if wrong[0] == EOS_ID else ""
        raise UserError(
            f"{what} with id {wrong[0]}: it may hold ids from 2 to {size - 1}; take them from a vocabulary or a beam"
            f"{without_end}"
        )


def check_targets(model: ModelFacts, targets: Sequence[Sequence[int]]) -> None:
    """Raises UserError unless outputs hold ids that `check_ids` accepts; those that are no tokens are not checked."""
    if model.spec.targets.kind == FeatureKind.TOKENS:
        for number, ids in enumerate(targets):
            check_ids(model, ids, f"targets[{number}]: an output")


def check_inputs(model: ModelFacts, sentences: Sequence[Row], name: str) -> None:
    """Raises UserError if an input holds padding or an id that its vocabulary lacks; arrays are not checked.

    Inputs are beginnings of outputs for a model without inputs. They may hold end of sequence, as examples may.
    """
    read = model.spec.inputs or model.spec.targets
    if read.kind != FeatureKind.TOKENS:
        return
    for number, ids in enumerate(sentences):
        wrong = [token for token in ids if not PAD_ID < token < read.vocab_size]
        if wrong:
            raise UserError(
                f"{name}[{number}]: an input with id {wrong[0]}: it may hold ids from 1 to {read.vocab_size - 1}; take "
                f"them from `encode`"
            )


def check_takes_prefixes(model: ModelFacts) -> None:
    """Raises UserError if the model supports no prefixes: it has no inputs, or is not autoregressive."""
    if model.spec.inputs is None or not model.autoregressive:
        why = "continues its inputs" if model.spec.inputs is None else "answers at once"
        raise UserError(f"prefixes of outputs: a model of {model.spec.name} {why}; leave them out")


def check_prefixes(model: ModelFacts, hparams: DecodeHParams, prefixes: Sequence[Sequence[int]], count: int) -> None:
    """Checks the prefixes of `count` inputs.

    Raises:
        ArgumentError: fewer or more prefixes than inputs.
        UserError: see `check_takes_prefixes` and `check_prefix`.
    """
    check_takes_prefixes(model)
    if len(prefixes) != count:
        raise ArgumentError(f"{len(prefixes)} prefixes for {count} inputs; give one for each, an empty one for none")
    for prefix in prefixes:
        check_prefix(model, hparams, prefix)
