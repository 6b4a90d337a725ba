"""Exports a run as a TensorFlow SavedModel, text in and text out, which only needs TensorFlow and tensorflow-text.

Every signature is compared with the run that it was made from.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.backends.base import inputs_signature
from t2t.errors import UserError
from t2t.formats.exporter import Export, ExportJob, Trial
from t2t.formats.exporting import example_shape, example_text, make_outputs
from t2t.formats.parity import (
    PROMISES,
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
from t2t.formats.saved_model.served import (
    CUT_INPUTS,
    CUT_OUTPUTS,
    IDS,
    INPUT_LENGTHS,
    OUTPUT_LENGTHS,
    SCORE,
    TEXT,
    Served,
)
from t2t.inference.rows import Row, max_sequence_ids, padded, reads_ids
from t2t.inference.translator import Translator
from t2t.search.result import exists
from t2t.specs import TARGETS
from t2t.specs.features import FeatureKind


class SavedModelExport(Export):
    """Exports texts-to-texts graphs that contain the search."""

    keeps_constraints = True

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        settings, self._hparams = translator.settings(job.n_best)
        if translator.model.spec.targets.kind not in (FeatureKind.TOKENS, FeatureKind.LABEL):
            found = f"the targets of {translator.problem.name} are {translator.model.spec.targets.kind}"
            raise self.refusal(found, "it serves text and classes")
        if translator.model.autoregressive and settings.method == "sample":
            raise UserError(
                "an export searches, so that it can be held against the run",
                "use beam",
                option="decode_method",
                value="sample",
            )

    def write(self, folder: Path) -> None:
        """See the base class."""
        served = Served(self.translator, self.job.n_best)
        try:
            tf.saved_model.save(served.tracked_module(), str(folder), signatures=served.signatures())
        except tf.errors.ResourceExhaustedError as error:
            raise OSError(error.message) from error

    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Compares every output of every signature, and texts of made ids: outputs of the run may be too short."""
        loaded, promise = tf.saved_model.load(str(folder)), PROMISES[self.job.quantization]
        found = prove_signatures(self.translator, loaded.signatures, trial, self.job.n_best, promise)
        if self.translator.model.spec.targets.kind == FeatureKind.TOKENS:
            found[TEXTS_OF_IDS] = prove_decoding(self.translator, loaded.decode, len(trial.rows), promise)
        return found

    def usage(self) -> str:
        """See the base class."""
        model = self.translator.model
        gives_classes = model.spec.targets.kind == FeatureKind.LABEL
        what, more = ("classes", ", probabilities") if gives_classes else ("outputs", "")
        more += "" if gives_classes or not model.autoregressive else f", {CUT_OUTPUTS}: bool"
        if reads_ids(model):
            more += f", {OUTPUT_LENGTHS}: int32, {CUT_INPUTS}: bool [batch], {INPUT_LENGTHS}: int32 [batch]"
        of = "text: string [batch]" if reads_ids(model) else "inputs"
        languages = ""
        if any(marks := self.translator.problem.languages.marks()):
            languages = "\nThe languages are fixed: those of the run, or those that t2t-exporter was given."
            first = " ".join(map(str, marks.input_start))
            languages += f" The inputs of `{IDS}` begin with their mark, {first}." if first else ""
            languages += "\n"
        score = f"\n- `{SCORE}({of}) -> {{log_probs: float [batch]}}`" if model.spec.inputs is None else ""
        return f"""
A TensorFlow SavedModel; it needs TensorFlow and tensorflow-text, and nothing else.

- `{TEXT}({of}) -> {{{what}: string [batch, {self.job.n_best}], scores: float{more}}}`, best first
- `{IDS}(inputs) -> {{ids: int32 [batch, {self.job.n_best}, length], lengths, scores, log_probs}}`{score}
{languages}
```python
import tensorflow as tf
import tensorflow_text  # the operations that cut text into pieces

folder = "."  # run this in the folder of the export, or name the folder
loaded = tf.saved_model.load(folder)
serve = loaded.signatures["{TEXT}"]
print(serve({self._example()})["{what}"].numpy())
```

TensorFlow Serving takes the folder as it is, as a version below a model's folder: `{{"instances": [...]}}` to
`/v1/models/NAME:predict`. A score of -1e9 means that there are no more hypotheses.
"""

    def _example(self) -> str:
        """Returns example arguments of the text signature, as Python source."""
        model = self.translator.model
        if reads_ids(model):
            return f"text=tf.constant([{example_text(self.translator)!r}])"
        return f"inputs=tf.zeros({[1, *example_shape(model)]}, tf.{inputs_signature(model).dtype})"


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
        raise ParityError(f"{min(unknown)}: nothing compares this signature with the run", "the export is not kept")
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
            f"{SCORE}: every text has more than {longest - 1} ids, so none has a probability to compare",
            "give shorter lines with --parity_file",
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
    names = ("ids", "lengths", "scores", "log_probs")
    outputs = _call_signature(signature, batch, set(names))
    return [
        [
            ComparedOutput(tuple(ids[:length].tolist()), float(score), log_prob=float(log_prob))
            for ids, length, score, log_prob in zip(*row, strict=True)
            if length
        ]
        for row in zip(*(outputs[name] for name in names), strict=True)
    ]


def _call_signature(signature: Any, given: tf.Tensor, compared: set[str]) -> Outputs:
    """Calls a signature; raises ParityError if it has outputs that are not in `compared`."""
    (name,) = signature.structured_input_signature[1]
    outputs = {key: value.numpy() for key, value in signature(**{name: given}).items()}
    if unknown := outputs.keys() - compared:
        raise ParityError(f"output {min(unknown)}: nothing compares it with the run", "the export is not kept")
    return outputs
