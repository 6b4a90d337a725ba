"""Compares every signature of a SavedModel with the run that it was made from."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.errors import UserError
from t2t.formats.exporter import Trial
from t2t.formats.made_inputs import make_outputs
from t2t.formats.parity import (
    TEXTS_OF_IDS,
    ComparedOutput,
    Parity,
    ParityError,
    Promise,
    answers_of_run,
    compare,
    compare_scores,
    compare_texts,
)
from t2t.formats.saved_model.served import CUT_INPUTS, CUT_OUTPUTS, IDS, INPUT_LENGTHS, OUTPUT_LENGTHS, SCORE, TEXT
from t2t.inference.rows import Row, max_sequence_ids, padded
from t2t.inference.translator import Translator
from t2t.search.result import exists
from t2t.specs.constants import TARGETS

BATCH = 32

Outputs = dict[str, np.ndarray]
"""Outputs of a signature for a batch, by name."""


def prove_signatures(
    translator: Translator, signatures: Mapping[str, Any], trial: Trial, n_best: int, promise: Promise
) -> dict[str, Parity]:
    """Compares all outputs of the signatures of a SavedModel with the run's; returns the comparisons by name.

    Raises:
        ParityError: the outputs of a signature differ, or a signature or output has no comparison.
        UserError: no text is short enough to be scored.
    """
    given = trial.rows if trial.texts is None else trial.texts
    expected = answers_of_run(translator, given, n_best)
    if trial.texts is not None:
        longest = translator.longest_input
        expected = [
            [
                dataclasses.replace(
                    answer,
                    cut_input=len(row) > longest,
                    input_length=min(len(row), longest),
                    length=len(answer.ids or ()),
                )
                for answer in answers
            ]
            for row, answers in zip(trial.rows, expected, strict=True)
        ]
    provers: dict[str, Callable[[Any], Parity]] = {
        TEXT: lambda signature: compare(expected, _answers_of_signature(signature, trial.rows, given, _texts)),
        IDS: lambda signature: compare(expected, _answers_of_signature(signature, trial.rows, trial.rows, _ids)),
        SCORE: lambda signature: _compare_scored(translator, signature, trial),
    }
    if unknown := signatures.keys() - provers.keys():
        raise ParityError(f"{min(unknown)}: nothing compares this signature with the run; the export is not kept")
    return {name: provers[name](signature).demand(name, promise) for name, signature in signatures.items()}


def prove_decoding(translator: Translator, decode: Callable[[Any], Any], count: int, promise: Promise) -> Parity:
    """Compares the texts of made ids of the target vocabulary; `decode` is that of a SavedModel.

    Raises:
        ParityError: a text differs.
    """
    rows, encoder = make_outputs(translator, count), translator.problem.encoders[TARGETS]
    found = [text.decode() for text in decode(tf.ragged.constant(rows, tf.int32, ragged_rank=1)).numpy()]
    return compare_texts([encoder.decode(row) for row in rows], found).demand(TEXTS_OF_IDS, promise)


def _compare_scored(translator: Translator, signature: Any, trial: Trial) -> Parity:
    """Compares the log-probabilities of the texts that are short enough."""
    longest = max_sequence_ids(translator.model, translator.hparams)
    texts = [text for row, text in zip(trial.rows, trial.texts or (), strict=True) if len(row) < longest]
    if not texts:
        raise UserError(
            f"{SCORE}: every text has more than {longest - 1} ids, so none has a probability to compare; give shorter "
            f"lines with --parity_file"
        )
    found: list[float] = []
    for start in range(0, len(texts), BATCH):
        outputs = _call_signature(signature, tf.constant(texts[start : start + BATCH]), {"log_probs"})
        found += outputs["log_probs"].tolist()
    return compare_scores(translator.score([("", text) for text in texts]), found)


def _answers_of_signature(
    signature: Any, rows: Sequence[Row], given: Sequence[Any], read: Callable[[Any, Any], list[list[ComparedOutput]]]
) -> list[list[ComparedOutput]]:
    """Returns the outputs for each input; inputs of similar length are batched.

    `given` are the inputs of the signature, rows or their texts; `read` calls it on a batch and returns the outputs.
    """
    answers: list[list[ComparedOutput]] = [[] for _ in rows]
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        batch = [given[place] for place in places]
        batch = tf.constant(batch if isinstance(batch[0], str) else padded(batch))
        for place, found in zip(places, read(signature, batch), strict=True):
            answers[place] = found
    return answers


def _texts(signature: Any, batch: tf.Tensor) -> list[list[ComparedOutput]]:
    compared = {"outputs", "classes", "scores", "probabilities"}
    compared |= {CUT_INPUTS, CUT_OUTPUTS, INPUT_LENGTHS, OUTPUT_LENGTHS}
    outputs = _call_signature(signature, batch, compared)
    texts = outputs["outputs" if "outputs" in outputs else "classes"]
    return [list(_text_answers(outputs, texts, row)) for row in range(len(texts))]


def _text_answers(outputs: Outputs, texts: np.ndarray, row: int) -> Iterator[ComparedOutput]:
    for k, score in enumerate(outputs["scores"][row]):
        if exists(score) or not np.isfinite(score):  # keeps NaN, so that the comparison fails
            probability = float(outputs["probabilities"][row, k]) if "probabilities" in outputs else None
            cut_input = bool(outputs[CUT_INPUTS][row]) if CUT_INPUTS in outputs else None
            cut = bool(outputs[CUT_OUTPUTS][row, k]) if CUT_OUTPUTS in outputs else None
            lengths = [outputs[OUTPUT_LENGTHS][row, k], outputs[INPUT_LENGTHS][row]] if INPUT_LENGTHS in outputs else []
            text = texts[row, k].decode()
            yield ComparedOutput(None, float(score), text, None, probability, cut, cut_input, *map(int, lengths))


def _ids(signature: Any, batch: tf.Tensor) -> list[list[ComparedOutput]]:
    outputs = _call_signature(signature, batch, {"ids", "lengths", "scores", "log_probs"})
    return [list(_id_answers(outputs, row)) for row in range(len(outputs["ids"]))]


def _id_answers(outputs: Outputs, row: int) -> Iterator[ComparedOutput]:
    for k, length in enumerate(outputs["lengths"][row]):
        if length:
            ids = tuple(outputs["ids"][row, k, :length].tolist())
            yield ComparedOutput(ids, float(outputs["scores"][row, k]), log_prob=float(outputs["log_probs"][row, k]))


def _call_signature(signature: Any, given: tf.Tensor, compared: set[str]) -> Outputs:
    """Calls a signature; raises ParityError if it has outputs that are not in `compared`."""
    (name,) = signature.structured_input_signature[1]
    outputs = {key: value.numpy() for key, value in signature(**{name: given}).items()}
    if unknown := outputs.keys() - compared:
        raise ParityError(f"output {min(unknown)}: nothing compares it with the run; the export is not kept")
    return outputs
