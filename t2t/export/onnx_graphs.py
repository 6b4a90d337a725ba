"""A run as graphs of ONNX: what is computed once, and one step of decoding; the search is left to who runs them.

Legend: B inputs of a batch, S ids of an input, N rows decoded together, V vocabulary, C classes.
"""

import importlib.util
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.constants import EOS_ID, INPUTS, PAD_ID
from t2t.decoding.result import SearchResult
from t2t.errors import UserError, one_line
from t2t.export.job import Export, ExportJob, Trial
from t2t.export.parity import GREEDY, Answer, Parity, answers_of_run, compare
from t2t.features import FeatureKind
from t2t.inference import Translator
from t2t.inference.batch_answer import classes, tokens
from t2t.inference.batch_search import inputs_signature
from t2t.inference.rows import Row, cut_rows, padded, reads_ids
from t2t.layers.attention import never_by_blocks

BEGIN, STEP, MODEL = "begin.onnx", "step.onnx", "model.onnx"
NAMES = "graphs.json"
"""What the tensors of the graphs are called, and how they follow each other."""

OPSET = 18


class OnnxExport(Export):
    """`begin.onnx` and `step.onnx` of a model that writes one id after the other, `model.onnx` of one that does not."""

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        for package in ("tf2onnx", "onnxruntime"):
            if importlib.util.find_spec(package) is None:
                raise UserError(f"--format=onnx: {package} is not installed; pip install 't2t[onnx]'")
        self._model = translator.model
        self._layout: dict[str, Any] = {}

    def write(self, folder: Path) -> None:
        """Converts each graph; says which one cannot be."""
        given = inputs_signature(self._model)
        given = tf.TensorSpec(given.shape, given.dtype, name="inputs")
        if not self._model.autoregressive:
            outputs = self._converted(lambda inputs: [self._model({INPUTS: inputs})], [given], folder / MODEL)
            self._layout = {MODEL: {"inputs": ["inputs"], "outputs": outputs}}
        else:
            self._write_steps(given, folder)
        (folder / NAMES).write_text(json.dumps(self._layout, indent=2) + "\n")

    def _write_steps(self, given: tf.TensorSpec, folder: Path) -> None:
        begin = tf.function(self._begun, input_signature=[given], autograph=False).get_concrete_function()
        state = begin.structured_outputs
        outputs = self._converted(lambda inputs: tf.nest.flatten(self._begun(inputs)), [given], folder / BEGIN)
        encoded, cache = (len(tf.nest.flatten(part)) for part in state)
        leaves = [
            tf.TensorSpec([None if size == 0 else size for size in leaf.shape], leaf.dtype, name=f"state_{place}")
            for place, leaf in enumerate(tf.nest.flatten(state))
        ]

        def step(ids, position, *leaves):
            encoded, cache = tf.nest.pack_sequence_as(state, leaves)
            logits_NV, cache = self._model.decode_step(ids, position, cache, self._model.prepare_steps(encoded or None))
            return [logits_NV, *tf.nest.flatten(cache)]

        numbers = [tf.TensorSpec([None], tf.int32, name="ids"), tf.TensorSpec([], tf.int32, name="position")]
        stepped = self._converted(step, [*numbers, *leaves], folder / STEP)
        self._layout = {
            BEGIN: {"inputs": ["inputs"], "outputs": outputs},
            STEP: {"inputs": [spec.name for spec in (*numbers, *leaves)], "outputs": stepped},
            "encoded": encoded,
            "cache": cache,
        }

    def _begun(self, inputs: tf.Tensor) -> tuple:
        """Returns what is computed once, and the state before the first step."""
        encoded = self._model.encode({INPUTS: inputs}) if self._model.spec.inputs else ()
        return encoded, self._model.init_cache(encoded or None, tf.shape(inputs)[0], None)

    def _converted(self, function: Callable, signature: Sequence[tf.TensorSpec], file: Path) -> list[str]:
        """Writes a function as a graph of ONNX; returns the names of its outputs in their order."""
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        names: list[str] = []

        def named(*given):
            found = [tf.identity(one, name=f"output_{place}") for place, one in enumerate(function(*given))]
            names[:] = [f"output_{place}" for place in range(len(found))]
            return dict(zip(names, found, strict=True))

        try:
            with never_by_blocks():  # loops of blocks, whose shapes the converter does not follow
                traced = tf.function(named, input_signature=list(signature), autograph=False)
                converted, _ = tf2onnx.convert.from_function(traced, list(signature), opset=OPSET)
        except Exception as error:  # whatever the converter says
            raise UserError(
                f"--format=onnx: the converter does not manage {file.name} of {type(self._model).__name__}: "
                f"{type(error).__name__}: {one_line(error)[:300]}; use saved_model"
            ) from error
        file.write_bytes(converted.SerializeToString())
        return [output.name for output in converted.graph.output]

    def prove(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Demands the outputs of greedy search, or the answers."""
        rows = cut_rows(self._model, trial.rows, self.translator.hparams)
        if self._model.autoregressive:
            what, ask = "greedy search", _Steps(folder, self._layout, self.translator)
            expected = answers_of_run(self.translator, trial.rows, **GREEDY)
        else:
            what, ask = "answers", _Answers(folder, self.translator, self.job.n_best)
            expected = answers_of_run(self.translator, trial.rows, self.job.n_best)
        parity = compare(expected, [ask(row) for row in rows])
        parity.demand(what)
        return {what: parity}

    def usage(self) -> str:
        """Says what the graphs are given and give."""
        if not self._model.autoregressive:
            return f"""
`{MODEL}` (ONNX, opset {OPSET}) gives the logits of `inputs`; ids are zero padded, and each row ends with {EOS_ID}.
"""
        return f"""
Graphs of ONNX, opset {OPSET}; `{NAMES}` names their inputs and outputs in order.

1. `{BEGIN}` is given `inputs` (ids, each row ended by {EOS_ID}, zero padded) and gives the state: first `encoded` many
   tensors that stay as they are, then `cache` many.
2. `{STEP}` is given `ids` (the last id of each row, {PAD_ID} at first), `position` (0, 1, ...) and the state; it gives
   the logits of the next id and the new cache. Id {PAD_ID} is never taken, id {EOS_ID} ends an output.
"""


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


class _Answers:
    """Answers of a model that answers at once."""

    def __init__(self, folder: Path, translator: Translator, count: int):
        self._session, self._count = _session(folder / MODEL), count
        self._model = translator.model

    def __call__(self, row: Row) -> list[Answer]:
        (logits,) = self._session.run(None, {"inputs": padded([row])})
        if self._model.spec.targets.kind == FeatureKind.LABEL:
            found = classes(logits, self._count)
        else:
            found = tokens(logits, np.array([len(row)]) if reads_ids(self._model) else None)
        found = SearchResult(*map(np.asarray, found))
        return [
            Answer(tuple(found.ids[0, k, : found.lengths[0, k]].tolist()), float(found.scores[0, k]))
            for k in range(found.ids.shape[1])
        ]


class _Steps:
    """Greedy search with the two graphs."""

    def __init__(self, folder: Path, layout: dict[str, Any], translator: Translator):
        self._begin, self._step, self._layout = _session(folder / BEGIN), _session(folder / STEP), layout
        self._model, self._hparams = translator.model, translator.hparams

    def __call__(self, row: Row) -> list[Answer]:
        begun = self._begin.run(self._layout[BEGIN]["outputs"], {"inputs": padded([row])})
        encoded, cache = begun[: self._layout["encoded"]], begun[self._layout["encoded"] :]
        ids, total = [PAD_ID], 0.0
        forced = [] if self._model.spec.inputs else list(row)
        for position in range(self._limit(row)):
            given = [np.array(ids[-1:], np.int32), np.array(position, np.int32), *encoded, *cache]
            feed = {name: value for name, value in zip(self._layout[STEP]["inputs"], given, strict=True)}
            known = {one.name for one in self._step.get_inputs()}  # what no operation reads is left out
            feed = {name: value for name, value in feed.items() if name in known}
            logits, *cache = self._step.run(self._layout[STEP]["outputs"], feed)
            scores = logits[0].astype(np.float64)
            log_probs = scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
            log_probs[PAD_ID] = -np.inf
            if position < len(forced):
                ids.append(forced[position])
            else:
                ids.append(int(log_probs.argmax()))
                total += log_probs[ids[-1]]
            if ids[-1] == EOS_ID:
                break
        return [Answer(tuple(ids[1:]), total)]

    def _limit(self, row: Row) -> int:
        length = len(row) if reads_ids(self._model) else self._model.source_embedding.positions_of(len(row))
        limit = max(length + self._hparams.extra_length, 1)
        return min(limit, self._model.longest_sequence or limit)
