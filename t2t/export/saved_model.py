"""A run as a TensorFlow SavedModel: text in and text out for any process that has TensorFlow and tensorflow-text."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.errors import UserError
from t2t.export.job import Export, ExportJob, Trial
from t2t.export.parity import Answer, Parity, answers_of_run, compare
from t2t.export.served import IDS, SCORE, TEXT, Served
from t2t.features import FeatureKind
from t2t.inference import Translator
from t2t.inference.rows import Row, padded

BATCH = 32
"""Inputs asked together when an export is tried."""


class SavedModelExport(Export):
    """Texts to texts, with the search of the library in the graph."""

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        settings, self._hparams = translator.settings(job.n_best)
        if translator.model.spec.targets.kind not in (FeatureKind.TOKENS, FeatureKind.LABEL):
            raise UserError(
                f"--format=saved_model: the targets of {translator.problem.name} are "
                f"{translator.model.spec.targets.kind}; it serves text and classes"
            )
        if translator.model.autoregressive and settings.method == "sample":
            raise UserError(
                "--decode_method=sample: an export searches, so that it can be held against the run; use beam"
            )

    def write(self, folder: Path) -> None:
        """Writes the SavedModel."""
        served = Served(self.translator, self.job.n_best)
        try:
            tf.saved_model.save(served.kept(), str(folder), signatures=served.signatures())
        except tf.errors.ResourceExhaustedError as error:
            raise OSError(error.message) from error

    def prove(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Demands the same ids and texts, of every hypothesis."""
        given = trial.rows if trial.texts is None else trial.texts
        parity = compare(answers_of_run(self.translator, given, self.job.n_best), ask(folder, trial.rows, trial.texts))
        parity.demand("serving_default and ids")
        return {"serving_default and ids": parity}

    def usage(self) -> str:
        """Says what to call."""
        model, given = self.translator.model, 'text=tf.constant(["a text"])' if self._reads_text else "inputs=..."
        what = "classes" if model.spec.targets.kind == FeatureKind.LABEL else "outputs"
        of = "text: string [batch]" if self._reads_text else "inputs"
        more = ", probabilities" if what == "classes" else ""
        score = f"\n- `{SCORE}({of}) -> {{log_probs: float [batch]}}`" if model.spec.inputs is None else ""
        finished = ""
        if self.translator.problem.finishes:
            finished = "\nOutputs are as the model writes them; what `t2t-decoder` makes of them is not in the graph.\n"
        return f"""
A TensorFlow SavedModel; it needs TensorFlow and tensorflow-text, and nothing else.

- `{TEXT}({of}) -> {{{what}: string [batch, {self.job.n_best}], scores: float{more}}}`, best first
- `{IDS}(inputs) -> {{ids: int32 [batch, {self.job.n_best}, length], lengths, scores, log_probs}}`{score}
{finished}
```python
import tensorflow as tf
import tensorflow_text  # the operations that cut text into pieces

serve = tf.saved_model.load("{self.job.folder.name}").signatures["{TEXT}"]
print(serve({given})["{what}"])
```

TensorFlow Serving takes the folder as it is, as a version below a model's folder: `{{"instances": [...]}}` to
`/v1/models/NAME:predict`. A score of -1e9 stands where there are no more hypotheses.
"""

    @property
    def _reads_text(self) -> bool:
        inputs = self.translator.model.spec.inputs
        return inputs is None or inputs.kind == FeatureKind.TOKENS


def ask(folder: Path, inputs: Sequence[Row], texts: Sequence[str] | None = None) -> list[list[Answer]]:
    """Loads a SavedModel and returns its answers to each input: ids from the one signature, texts from the other.

    Args:
        folder: of the SavedModel.
        inputs: ids without end of sequence, or arrays of what is no text.
        texts: the same as text, where it is.
    """
    loaded = tf.saved_model.load(str(folder))
    answers: list[list[Answer]] = [[] for _ in inputs]
    for places in _batches(inputs):
        rows = tf.constant(padded([inputs[place] for place in places]))
        given = rows if texts is None else tf.constant([texts[place] for place in places])
        ids, text = _called(loaded.signatures[IDS], rows), _called(loaded.signatures[TEXT], given)
        for row, place in enumerate(places):
            answers[place] = list(_answers(ids, text, row))
    return answers


def _called(signature: Any, given: tf.Tensor) -> dict[str, np.ndarray]:
    (name,) = signature.structured_input_signature[1]
    return {key: value.numpy() for key, value in signature(**{name: given}).items()}


def _answers(ids: dict[str, np.ndarray], text: dict[str, np.ndarray], row: int) -> Iterator[Answer]:
    texts = text.get("outputs", text.get("classes"))
    for k, length in enumerate(ids["lengths"][row]):
        if length:
            found = tuple(ids["ids"][row, k, :length].tolist())
            yield Answer(found, float(text["scores"][row, k]), texts[row, k].decode())


def _batches(inputs: Sequence[Row]) -> Iterator[list[int]]:
    order = sorted(range(len(inputs)), key=lambda place: len(inputs[place]))
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]
