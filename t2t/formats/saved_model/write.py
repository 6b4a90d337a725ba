"""Exports a run as a TensorFlow SavedModel, text in and text out, which only needs TensorFlow and tensorflow-text."""

from pathlib import Path

import tensorflow as tf

from t2t.backends.base import inputs_signature
from t2t.errors import UserError
from t2t.formats.exporter import Export, ExportJob, Trial
from t2t.formats.made_inputs import example_shape, example_text
from t2t.formats.parity import PROMISES, TEXTS_OF_IDS, Parity
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
from t2t.formats.saved_model.trial import prove_decoding, prove_signatures
from t2t.inference.rows import reads_ids
from t2t.inference.translator import Translator
from t2t.specs.features import FeatureKind


class SavedModelExport(Export):
    """Exports texts-to-texts graphs that contain the search."""

    keeps_constraints = True

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
