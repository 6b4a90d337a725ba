"""Runs the ONNX graphs in this folder: a line in, a line out, as `t2t-decoder --decode_method=greedy` writes it.

Nothing is forbidden or penalised in outputs: min_output_length, eos_penalty, no_repeat_ngram_size and
constrain_output do not count.

    python translate.py < lines > outputs

It needs numpy and onnxruntime, and `t2t.text` for the vocabularies, which loads no TensorFlow. Exports hold this file
as `translate.py` and are compared with their run by it. In Python: `Model(folder).translate("a text")`.

Legend: V vocabulary, P positions, C classes.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

BEGIN, STEP, MODEL = "begin.onnx", "step.onnx", "model.onnx"
GRAPHS, CONFIG = "graphs.json", "config.json"

Output = tuple[tuple[int, ...], float]
"""Ids, end of sequence included, and their log-probability."""


def open_session(content: bytes) -> Any:
    """Returns the `onnxruntime.InferenceSession` of a graph."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


class Graph:
    """A graph, loaded; `names` has its `inputs` and `outputs` in order."""

    def __init__(self, file: Path, names: dict[str, list[str]]):
        self._session, self._names = open_session(file.read_bytes()), names
        self._read = {one.name for one in self._session.get_inputs()}  # inputs that no operation reads are left out

    def __call__(self, *given: np.ndarray) -> list[np.ndarray]:
        """Returns the outputs for inputs in the order of the names."""
        pairs = zip(self._names["inputs"], given, strict=True)
        return self._session.run(self._names["outputs"], {name: value for name, value in pairs if name in self._read})


class Model:
    """The graphs of a folder, with what its `config.json` says about them."""

    def __init__(self, folder: Path | str):
        self._folder = Path(folder)
        self.config = json.loads((self._folder / CONFIG).read_text(encoding="utf-8"))
        graphs = json.loads((self._folder / GRAPHS).read_text(encoding="utf-8"))
        self._graphs = {name: Graph(self._folder / name, names) for name, names in graphs.items()}
        self._vocabularies: dict[str, Any] = {}

    def translate(self, text: str) -> str:
        """Returns the likeliest output for a text as text; raises ValueError if the inputs are arrays."""
        config = self.config
        if not config["reads_text"]:
            raise ValueError("the inputs of this model are arrays; call Model.answer with one")
        if config["has_inputs"] and not text.strip():
            return ""
        ids = self._vocabulary("inputs" if config["has_inputs"] else "targets").encode(text)[: config["longest_input"]]
        row = [*ids, config["eos_id"]] if config["has_inputs"] else ids
        ((output, _),) = self.answer(row)
        return config["classes"][output[0]] if config["classes"] else self._vocabulary("targets").decode(output)

    def answer(self, row: Sequence[int] | np.ndarray, limit: int | None = None, count: int = 1) -> list[Output]:
        """Returns the outputs for one input, best first: one by greedy search, or the likeliest `count` classes.

        Args:
            row: ids with end of sequence, the beginning of an output for a language model, or an array.
            limit: most ids of an output; None for those of the input and `extra_length`.
            count: how many classes.
        """
        inputs = row[None] if isinstance(row, np.ndarray) else np.array([row or [self.config["pad_id"]]], np.int32)
        if not self.config["autoregressive"]:
            return self._answer_at_once(inputs, len(row), count)
        limit = max(len(row) + self.config["extra_length"], 1) if limit is None else limit
        limit = min(limit, self.config["longest_output"] or limit)
        return [self._search(inputs, () if self.config["has_inputs"] else row, limit)]

    def _search(self, inputs: np.ndarray, beginning: Sequence[int] | np.ndarray, limit: int) -> Output:
        """Continues a prefix by greedy search."""
        pad, end = self.config["pad_id"], self.config["eos_id"]
        state, ids, total = self._graphs[BEGIN](inputs), [pad], 0.0
        for position in range(limit):
            logits, *cache = self._graphs[STEP](np.array(ids[-1:], np.int32), np.array(position, np.int32), *state)
            state[len(state) - len(cache) :] = cache
            if position < len(beginning):
                ids.append(int(beginning[position]))
                continue
            log_probs_V = _log_softmax(logits[0])
            log_probs_V[pad] = -np.inf
            ids.append(int(log_probs_V.argmax()))
            total += float(log_probs_V[ids[-1]])
            if ids[-1] == end:
                break
        return tuple(ids[1:]), total

    def _answer_at_once(self, inputs: np.ndarray, length: int, count: int) -> list[Output]:
        (logits,) = self._graphs[MODEL](inputs)
        log_probs = _log_softmax(logits[0])
        if self.config["classes"]:
            likeliest = np.argsort(-log_probs, kind="stable")[:count]
            return [((int(one),), float(log_probs[one])) for one in likeliest]
        log_probs_PV = log_probs[:length] if self.config["reads_text"] else log_probs
        log_probs_PV[:, self.config["pad_id"]] = -np.inf
        ids = log_probs_PV.argmax(axis=1).tolist()
        if self.config["eos_id"] in ids:
            ids = ids[: ids.index(self.config["eos_id"]) + 1]
        return [(tuple(ids), float(log_probs_PV.max(axis=1)[: len(ids)].sum()))]

    def _vocabulary(self, feature: str) -> Any:
        from t2t.text.vocabulary_files import read_vocabulary

        if feature not in self._vocabularies:
            self._vocabularies[feature] = read_vocabulary(self._folder / self.config["vocabularies"][feature])
        return self._vocabularies[feature]


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits.astype(np.float64), axis=-1, keepdims=True)


def main() -> None:
    """Translates the lines of standard input."""
    from t2t.files.lines import on_one_line, stream_lines

    model = Model(Path(__file__).resolve().parent)
    for line in stream_lines(sys.stdin.buffer, Counter(), "standard input"):
        print(on_one_line(model.translate(line)), flush=True)


if __name__ == "__main__":
    main()
