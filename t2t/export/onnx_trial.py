"""Running graphs of ONNX as their README says, to hold them against the run that they are of.

Legend: V vocabulary.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.constants import EOS_ID, PAD_ID
from t2t.decoding.result import SearchResult
from t2t.errors import one_line
from t2t.export.parity import Answer, ParityError
from t2t.features import FeatureKind
from t2t.inference import Translator
from t2t.inference.batch_answer import classes, tokens
from t2t.inference.rows import Row, padded, positions_in, reads_ids
from t2t.models.base import SequenceModel

BEGIN, STEP, MODEL = "begin.onnx", "step.onnx", "model.onnx"


@dataclasses.dataclass(frozen=True)
class Graph:
    """What the tensors of a graph are called, in order."""

    inputs: Sequence[str]
    outputs: Sequence[str]


def opened(content: bytes):
    """Returns the `onnxruntime.InferenceSession` of a graph; it raises what it likes where the graph is none."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


class _Runner:
    """A graph, loaded."""

    def __init__(self, file: Path, graph: Graph):
        self._session, self._name, self._graph = opened(file.read_bytes()), file.name, graph
        self._read = {one.name for one in self._session.get_inputs()}  # what no operation reads is left out

    def __call__(self, *given: np.ndarray) -> list[np.ndarray]:
        pairs = zip(self._graph.inputs, given, strict=True)
        try:
            return self._session.run(self._graph.outputs, {name: value for name, value in pairs if name in self._read})
        except Exception as error:  # whatever the runtime says
            said = f"{type(error).__name__}: {one_line(error)[:300]}"
            raise ParityError(
                f"{self._name}: it fails where the run answers ({said}); the export is not kept"
            ) from error


def answered_at_once(
    folder: Path, graphs: Mapping[str, Graph], model: SequenceModel, rows: Sequence[Row], count: int
) -> list[list[Answer]]:
    """Returns the `count` answers of a model that answers at once to each row."""
    run = _Runner(folder / MODEL, graphs[MODEL])
    answers = []
    for row in rows:
        (logits,) = run(padded([row]))
        if model.spec.targets.kind == FeatureKind.LABEL:
            found: Any = classes(logits, count)
        else:
            found = tokens(logits, np.array([len(row)]) if reads_ids(model) else None)
        found = SearchResult(*map(np.asarray, found))
        places = range(found.ids.shape[1])
        ids = [tuple(found.ids[0, k, : found.lengths[0, k]].tolist()) for k in places]
        answers.append([Answer(ids[k], float(found.scores[0, k])) for k in places])
    return answers


def searched(
    folder: Path, graphs: Mapping[str, Graph], translator: Translator, rows: Sequence[Row]
) -> list[list[Answer]]:
    """Returns the likeliest id after the likeliest id to each row, greedy search, and its log-probability."""
    begin, step = (_Runner(folder / name, graphs[name]) for name in (BEGIN, STEP))
    model, extra_length = translator.model, translator.hparams.extra_length
    size_of, answers = positions_in(model), []
    for row in rows:
        limit = max(size_of(row) + extra_length, 1)
        beginning = () if model.spec.inputs else tuple(row)
        ids, log_prob = _greedy(begin, step, row, beginning, min(limit, model.longest_sequence or limit))
        answers.append([Answer(ids, log_prob)])
    return answers


def _greedy(begin: _Runner, step: _Runner, row: Row, beginning: Sequence[int], limit: int) -> tuple[tuple, float]:
    """Returns ids that go on from a beginning, which they hold, and the log-probability of what follows it."""
    state, ids, total = begin(padded([row])), [PAD_ID], 0.0
    for position in range(limit):
        logits, *cache = step(np.array(ids[-1:], np.int32), np.array(position, np.int32), *state)
        state[len(state) - len(cache) :] = cache
        log_probs_V = logits[0] - np.logaddexp.reduce(logits[0].astype(np.float64))
        log_probs_V[PAD_ID] = -np.inf
        if position < len(beginning):
            ids.append(int(beginning[position]))
            continue
        ids.append(int(log_probs_V.argmax()))
        total += float(log_probs_V[ids[-1]])
        if ids[-1] == EOS_ID:
            break
    return tuple(ids[1:]), total
