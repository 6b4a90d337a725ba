"""A run as graphs of ONNX: what is computed once, and one step of decoding; the search is left to who runs them.

Legend: N rows decoded together, V vocabulary.
"""

import dataclasses
import importlib.util
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from t2t.constants import EOS_ID, INPUTS, PAD_ID
from t2t.errors import UserError, one_line
from t2t.export.job import Export, ExportJob, Trial
from t2t.export.onnx_trial import BEGIN, MODEL, STEP, Graph, answered_at_once, opened, searched
from t2t.export.parity import GREEDY, Parity, answers_of_run, compare
from t2t.inference import Translator
from t2t.inference.batch_search import inputs_signature, unknown_sizes
from t2t.inference.rows import cut_rows
from t2t.layers.attention import never_by_blocks

NAMES = "graphs.json"
"""What the inputs and outputs of the graphs are called."""

OPSET = 18


class OnnxExport(Export):
    """`begin.onnx` and `step.onnx` of a model that writes one id after the other, `model.onnx` of one that does not."""

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        for package in ("tf2onnx", "onnxruntime"):
            if importlib.util.find_spec(package) is None:
                raise UserError(f"--format=onnx: {package} is not installed; pip install 't2t[onnx]'")
        self._model = translator.model
        given = inputs_signature(self._model)
        self._inputs = tf.TensorSpec(given.shape, given.dtype, name=INPUTS)
        self._graphs: dict[str, Graph] = {}

    def write(self, folder: Path) -> None:
        """Converts each graph; says which one cannot be."""
        if self._model.autoregressive:
            self._write_steps(folder)
        else:
            self._convert(lambda inputs: [self._model({INPUTS: inputs})], [self._inputs], folder / MODEL)
        described = {name: dataclasses.asdict(graph) for name, graph in self._graphs.items()}
        (folder / NAMES).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")

    def _write_steps(self, folder: Path) -> None:
        state = tf.function(self._begun, input_signature=[self._inputs], autograph=False)
        state = state.get_concrete_function().structured_outputs
        self._convert(lambda inputs: tf.nest.flatten(self._begun(inputs)), [self._inputs], folder / BEGIN)
        leaves = [unknown_sizes(leaf) for leaf in tf.nest.flatten(state)]
        leaves = [tf.TensorSpec(leaf.shape, leaf.dtype, f"state_{n:03d}") for n, leaf in enumerate(leaves)]

        def step(ids_N, position, *leaves):
            encoded, cache = tf.nest.pack_sequence_as(state, leaves)
            prepared = self._model.prepare_steps(encoded if self._model.spec.inputs else None)
            logits_NV, cache = self._model.decode_step(ids_N, position, cache, prepared)
            return [logits_NV, *tf.nest.flatten(cache)]

        numbers = [tf.TensorSpec([None], tf.int32, "ids"), tf.TensorSpec([], tf.int32, "position")]
        self._convert(step, [*numbers, *leaves], folder / STEP)

    def _begun(self, inputs: tf.Tensor) -> tuple:
        """Returns what is computed once, and the state before the first step."""
        encoded = self._model.encode({INPUTS: inputs}) if self._model.spec.inputs else None
        return () if encoded is None else encoded, self._model.init_cache(encoded, tf.shape(inputs)[0], None)

    def _convert(self, function: Callable, signature: Sequence[tf.TensorSpec], file: Path) -> None:
        """Writes a function that returns a list of tensors as a graph of ONNX."""
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)

        def named(*given):
            return {f"output_{n:03d}": tf.identity(one) for n, one in enumerate(function(*given))}

        try:
            with never_by_blocks():  # loops of blocks, whose shapes the converter does not follow
                traced = tf.function(named, input_signature=list(signature), autograph=False)
                converted, _ = tf2onnx.convert.from_function(traced, list(signature), opset=OPSET)
            opened(converted.SerializeToString())  # the converter leaves operations as they are that it does not know
        except Exception as error:  # whatever the converter says, or the runtime of what it has left
            raise UserError(
                f"--format=onnx: the converter does not manage {file.name} of {type(self._model).__name__}: "
                f"{type(error).__name__}: {one_line(error)[:300]}; use saved_model"
            ) from error
        file.write_bytes(converted.SerializeToString())
        outputs = [output.name for output in converted.graph.output]
        self._graphs[file.name] = Graph([spec.name for spec in signature], outputs)

    def prove(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Demands the outputs of greedy search, or the answers."""
        rows = cut_rows(self._model, trial.rows, self.translator.hparams)
        if self._model.autoregressive:
            what, expected = "greedy search", answers_of_run(self.translator, trial.rows, **GREEDY)
            found = searched(folder, self._graphs, self.translator, rows)
        else:
            what, expected = "answers", answers_of_run(self.translator, trial.rows, self.job.n_best)
            found = answered_at_once(folder, self._graphs, self._model, rows, self.job.n_best)
        parity = compare(expected, found)
        parity.demand(what)
        return {what: parity}

    def usage(self) -> str:
        """Says what the graphs are given and give."""
        if not self._model.autoregressive:
            return f"""
`{MODEL}` (ONNX, opset {OPSET}) gives the logits of `{INPUTS}`; ids are zero padded, and each row ends with {EOS_ID}.
"""
        return f"""
Graphs of ONNX, opset {OPSET}; `{NAMES}` names their inputs and outputs in order.

1. `{BEGIN}` is given `{INPUTS}` (ids, each row ended by {EOS_ID}, zero padded) and gives the state.
2. `{STEP}` is given `ids` (the last id of each row, {PAD_ID} at first), `position` (0, 1, ...) and the state. It gives
   the logits of the next id, and what the last tensors of the state are from then on; the ones before stay as they are.

Id {PAD_ID} is never taken, id {EOS_ID} ends an output.
"""
