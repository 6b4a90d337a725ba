"""A run as graphs of ONNX: what is computed once, and one step of decoding; the search is left to who runs them.

Legend: N rows decoded together, V vocabulary.
"""

import json
import logging
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.errors import UserError, one_line
from t2t.export import onnx_script
from t2t.export.formats import PROMISES
from t2t.export.job import Export, ExportJob, Trial
from t2t.export.made_inputs import example_shape, example_text
from t2t.export.onnx_script import BEGIN, CONFIG, GRAPHS, MODEL, STEP, open_session
from t2t.export.parity import GREEDY, Answer, Parity, ParityError, answers_of_run, compare
from t2t.files.paths import to_record
from t2t.inference.rows import Row, cut_rows, positions_in, reads_ids
from t2t.inference.search_signatures import inputs_signature, unknown_sizes
from t2t.inference.translator import Translator
from t2t.layers.attention import without_blockwise_attention
from t2t.specs.constants import EOS_ID, INPUTS, PAD_ID
from t2t.specs.features import FeatureKind
from t2t.text.vocabulary_files import save_encoders

SCRIPT = "translate.py"

OPSET = 18


class OnnxExport(Export):
    """`begin.onnx` and `step.onnx` of a model that writes one id after the other, `model.onnx` of one that does not."""

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        self._model = translator.model
        if self._model.mask_predicts:
            raise UserError(
                f"--format=onnx: its script searches token by token, and {type(self._model).__name__} is decoded by "
                f"mask-predict; use saved_model"
            )
        given = inputs_signature(self._model)
        self._inputs = tf.TensorSpec(given.shape, given.dtype, name=INPUTS)
        self._graphs: dict[str, dict[str, list[str]]] = {}

    def write(self, folder: Path) -> None:
        """Writes graphs, vocabularies, configuration and script; raises UserError if a graph cannot be converted."""
        if self._model.autoregressive:
            self._write_steps(folder)
        else:
            self._convert(lambda inputs: [self._model({INPUTS: inputs})], [self._inputs], folder / MODEL)
        for name, content in ((GRAPHS, self._graphs), (CONFIG, self._config(folder))):
            (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        shutil.copyfile(onnx_script.__file__, folder / SCRIPT)

    def _config(self, folder: Path) -> dict[str, Any]:
        """Writes the vocabularies; returns the configuration that the script reads."""
        model, problem, targets = self._model, self.translator.problem, self._model.spec.targets
        files, gives_classes = save_encoders(folder, problem.encoders), targets.kind == FeatureKind.LABEL
        return {
            "autoregressive": model.autoregressive,
            "reads_text": reads_ids(model),
            "has_inputs": self.translator.has_inputs,
            "longest_input": self.translator.longest_input,
            "longest_output": model.longest_sequence,
            "extra_length": self.translator.hparams.extra_length,
            "pad_id": PAD_ID,
            "eos_id": EOS_ID,
            "classes": [problem.decode_target(one) for one in range(targets.vocab_size)] if gives_classes else None,
            "vocabularies": {name: file.file for name, file in files.items()},
        }

    def _write_steps(self, folder: Path) -> None:
        start = tf.function(self._start_decode, input_signature=[self._inputs], autograph=False)
        state = start.get_concrete_function().structured_outputs
        self._convert(lambda inputs: tf.nest.flatten(self._start_decode(inputs)), [self._inputs], folder / BEGIN)
        leaves = [unknown_sizes(leaf) for leaf in tf.nest.flatten(state)]
        leaves = [tf.TensorSpec(leaf.shape, leaf.dtype, f"state_{n:03d}") for n, leaf in enumerate(leaves)]

        def step(ids_N, position, *leaves):
            encoded, cache = tf.nest.pack_sequence_as(state, leaves)
            prepared = self._model.prepare_decode(encoded if self._model.spec.inputs else None)
            logits_NV, cache = self._model.decode_step(ids_N, position, cache, prepared)
            return [logits_NV, *tf.nest.flatten(cache)]

        numbers = [tf.TensorSpec([None], tf.int32, "ids"), tf.TensorSpec([], tf.int32, "position")]
        self._convert(step, [*numbers, *leaves], folder / STEP)

    def _start_decode(self, inputs: tf.Tensor) -> tuple:
        """Returns the encoded inputs and the initial decoding state."""
        encoded = self._model.encode({INPUTS: inputs}) if self._model.spec.inputs else None
        return () if encoded is None else encoded, self._model.init_cache(encoded, tf.shape(inputs)[0], None)

    def _convert(self, function: Callable, signature: Sequence[tf.TensorSpec], file: Path) -> None:
        """Writes a function that returns a list of tensors as a graph of ONNX."""
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)

        def named(*given):
            return {f"output_{n:03d}": tf.identity(one) for n, one in enumerate(function(*given))}

        try:
            with without_blockwise_attention():  # loops of blocks, whose shapes the converter does not follow
                traced = tf.function(named, input_signature=list(signature), autograph=False)
                converted, _ = tf2onnx.convert.from_function(traced, list(signature), opset=OPSET)
            open_session(converted.SerializeToString())  # the converter keeps unknown operations
        except Exception as error:  # whatever the converter says, or the runtime of what it has left
            raise UserError(
                f"--format=onnx: the converter does not manage {file.name} of {type(self._model).__name__}: "
                f"{type(error).__name__}: {one_line(error)[:300]}; use saved_model"
            ) from error
        file.write_bytes(converted.SerializeToString())
        outputs = [output.name for output in converted.graph.output]
        self._graphs[file.name] = {"inputs": [spec.name for spec in signature], "outputs": outputs}

    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Compares the outputs of greedy search, or the answers of a model that is not autoregressive."""
        if self._model.autoregressive:
            what, expected = "greedy search", answers_of_run(self.translator, trial.rows, **GREEDY)
        else:
            what, expected = "answers", answers_of_run(self.translator, trial.rows, self.job.n_best)
        found = compare(expected, self._answers(folder, trial.rows))
        return {what: found.demand(what, PROMISES[self.job.quantization])}

    def _answers(self, folder: Path, rows: Sequence[Row]) -> list[list[Answer]]:
        """Returns the answers of the graphs, run by the script beside them; raises ParityError if a graph fails."""
        size_of, extra_length = positions_in(self._model), self.translator.hparams.extra_length
        rows = cut_rows(self._model, rows, self.translator.hparams)
        try:
            model = onnx_script.Model(folder)
            outputs = [model.answer(row, max(size_of(row) + extra_length, 1), self.job.n_best) for row in rows]
        except Exception as error:  # of any class of the runtime
            said = f"{type(error).__name__}: {one_line(error)[:300]}"
            raise ParityError(f"it fails where the run answers ({said}); the export is not kept") from error
        return [[Answer(ids, log_prob) for ids, log_prob in found] for found in outputs]

    def usage(self) -> str:
        """See the base class."""
        example = self._text_example() if reads_ids(self._model) else self._array_example()
        ended = f"ids, each row ended by {EOS_ID}, zero padded" if self.translator.has_inputs else "ids, zero padded"
        given = ended if reads_ids(self._model) else f"{self._inputs.dtype.name}, {self._inputs.shape}"
        if not self._model.autoregressive:
            return f"{example}\n`{MODEL}` (ONNX, opset {OPSET}) gives the logits of `{INPUTS}` ({given}).\n"
        return f"""{example}
Graphs of ONNX, opset {OPSET}; `{GRAPHS}` names their inputs and outputs in order.

1. `{BEGIN}` is given `{INPUTS}` ({given}) and gives the state.
2. `{STEP}` is given `ids` (the last id of each row, {PAD_ID} at first), `position` (0, 1, ...) and the state. It gives
   the logits of the next id, and what the last tensors of the state are from then on; the ones before stay as they are.

Id {PAD_ID} is never taken, id {EOS_ID} ends an output.
"""

    def _text_example(self) -> str:
        script = shlex.quote(str(self.job.folder.resolve() / SCRIPT))
        return f"""
`{SCRIPT}` writes an output for each line that it reads, by greedy search. It needs numpy, onnxruntime and t2t, for the
vocabularies alone; it loads no TensorFlow.

```bash
echo {shlex.quote(example_text(self.translator))} | python {script}
```
"""

    def _array_example(self) -> str:
        shape, dtype = example_shape(self._model), self._inputs.dtype.name
        limit = ""
        if self._model.autoregressive:
            limit = f", limit={positions_in(self._model)(np.zeros(shape)) + self.translator.hparams.extra_length}"
        return f"""
`{SCRIPT}` answers one input at a time; it needs numpy and onnxruntime. `limit` is the most ids of an output.

```python
import sys

import numpy as np

folder = {to_record(self.job.folder)!r}  # change this if you move the folder
sys.path.insert(0, folder)
from translate import Model

((ids, log_prob),) = Model(folder).answer(np.zeros({shape}, "{dtype}"){limit})
print(ids, log_prob)
```
"""
