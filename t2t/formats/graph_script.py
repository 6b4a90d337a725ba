"""Runs the graphs in this folder: an output line for each input line, as with `t2t-decoder --decode_method=greedy`.

Outputs are not constrained: min_output_length, eos_penalty, no_repeat_ngram_size and constrain_output are ignored.

    python translate.py < lines > outputs

It needs numpy, the runtime named in `config.json` (onnxruntime or ai-edge-litert), and sentencepiece for its pieces.
Exports contain this file as `translate.py`, with `vocabularies.py` next to it; it is also used to compare them with
their run. In Python: `Model(folder).translate("a text")`.

Legend: V vocabulary, P positions, C classes.
"""

import gzip
import json
import re
import runpy
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

BEGIN, STEP, MODEL = "begin", "step", "model"
LENGTH = "length"
"""Input of `begin` with the most ids of an output, for graphs whose state is allocated for them at the start."""
GRAPHS, CONFIG = "graphs.json", "config.json"
LITERT_FILE = "model.tflite"

Output = tuple[tuple[int, ...], float]
"""Ids, end of sequence included, and their log-probability."""
Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
"""Runs a graph: inputs by name, of which it may ignore some, to outputs by name."""


def open_onnx(content: bytes) -> Any:
    """Returns the `onnxruntime.InferenceSession` of a graph."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def load_onnx(folder: Path, names: Sequence[str]) -> list[Run]:
    """Loads ONNX graphs, one file each."""

    def load(name: str) -> Run:
        session = open_onnx((folder / f"{name}.onnx").read_bytes())
        read = {one.name for one in session.get_inputs()}  # ONNX drops inputs that no operation reads
        outputs = [one.name for one in session.get_outputs()]

        def run(given):
            found = session.run(outputs, {name: value for name, value in given.items() if name in read})
            return dict(zip(outputs, found, strict=True))

        return run

    return [load(name) for name in names]


def load_litert(folder: Path, names: Sequence[str]) -> list[Run]:
    """Loads LiteRT graphs, the signatures of one file."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(folder / LITERT_FILE))

    def load(name: str) -> Run:
        runner = interpreter.get_signature_runner(name)
        read = runner.get_input_details()
        return lambda given: runner(**{name: value for name, value in given.items() if name in read})

    return [load(name) for name in names]


RUNTIMES = {"onnx": load_onnx, "litert": load_litert}
"""Runtime in `config.json` -> function that loads graphs."""


class Graph:
    """A loaded graph; `names` has its `inputs` and `outputs` in order."""

    def __init__(self, run: Run, names: dict[str, list[str]]):
        self._run, self.inputs, self.outputs = run, names["inputs"], names["outputs"]

    def __call__(self, *given: np.ndarray) -> list[np.ndarray]:
        """Returns the outputs for inputs in the order of the names."""
        found = self._run(dict(zip(self.inputs, given, strict=True)))
        return [found[name] for name in self.outputs]


class Model:
    """The model of an export folder: its graphs, vocabularies and `config.json`."""

    def __init__(self, folder: Path | str):
        self._folder = Path(folder)
        self.config = json.loads((self._folder / CONFIG).read_text(encoding="utf-8"))
        graphs = json.loads((self._folder / GRAPHS).read_text(encoding="utf-8"))
        loaded = RUNTIMES[self.config["runtime"]](self._folder, list(graphs))
        self._graphs = {name: Graph(run, names) for run, (name, names) in zip(loaded, graphs.items(), strict=True)}
        self._vocabularies: dict[str, Any] = {}

    def translate(self, text: str) -> str:
        """Returns the best output for a text as text; raises ValueError if the model's inputs are arrays."""
        if not self.config["reads_text"]:
            raise ValueError("the inputs of this model are arrays; call Model.answer with one")
        text = text.replace("\0", "")
        if self.config["has_inputs"] and not text.strip():
            return ""
        ((output, _),) = self.answer(self.row(text))
        return self.text(output)

    def row(self, text: str) -> list[int]:
        """Returns the ids of a text that the graphs read."""
        config = self.config
        if config["single_spaces"]:
            text = " ".join(filter(None, re.split("[ \t\r\n\f\v\u3000]+", text)))
        ids = self._vocabulary("inputs" if config["has_inputs"] else "targets").encode(text)
        ids, longest = [*config["input_start"], *ids], config["longest_input"]
        if len(ids) > longest:
            warnings.warn(f"a text of {len(ids)} ids is cut to {longest}", stacklevel=2)
        if config["has_inputs"]:
            return [*ids[:longest], config["eos_id"], *config["input_end"]]
        return ids[max(len(ids) - longest, 0) :]

    def text(self, output: Sequence[int]) -> str:
        """Returns the text of an output, or the name of its class."""
        if classes := self.config["classes"]:
            return classes[output[0]]
        ids = [*output, self.config["eos_id"]]
        written = ids[: ids.index(self.config["eos_id"])]
        return self._vocabulary("targets").decode([one for one in written if one != self.config["pad_id"]])

    def answer(self, row: Sequence[int] | np.ndarray, limit: int | None = None, count: int = 1) -> list[Output]:
        """Returns the outputs for one input, best first: one by greedy search, or the `count` most probable classes.

        Args:
            row: ids with end of sequence and language codes; for a language model, ids to continue; or an array.
            limit: most ids of an output; None for the length of the input plus `extra_length`.
            count: number of classes.
        """
        if not self.config["autoregressive"]:
            return self._answer_at_once(row, count)
        limit = max(len(row) + self.config["extra_length"], 1) if limit is None else limit
        limit = min(limit, self.config["longest_output"] or limit)
        beginning = self._beginning(row)
        limit = max(limit, len(beginning) + 1) if self.config["has_inputs"] else limit
        return [self._search(row, beginning, len(beginning), limit)]

    def score(self, row: Sequence[int] | np.ndarray, output: Sequence[int]) -> float:
        """Returns the log-probability of an output, end of sequence included, or of a class."""
        if self.config["autoregressive"]:
            return self._search(row, output, len(self._beginning(row)), len(output))[1]
        log_probs = self._log_probs_at_once(row)
        found = log_probs[output[0]] if self.config["classes"] else log_probs[np.arange(len(output)), output].sum()
        return float(found)

    def _inputs(self, row: Sequence[int] | np.ndarray) -> np.ndarray:
        return row[None] if isinstance(row, np.ndarray) else np.array([row or [self.config["pad_id"]]], np.int32)

    def _beginning(self, row: Sequence[int] | np.ndarray) -> Sequence[int] | np.ndarray:
        return self.config["output_start"] if self.config["has_inputs"] else row

    def _search(
        self, row: Sequence[int] | np.ndarray, given: Sequence[int] | np.ndarray, unscored: int, limit: int
    ) -> Output:
        """Continues the ids `given` by greedy search; the first `unscored` of them do not count in the score."""
        pad, end = self.config["pad_id"], self.config["eos_id"]
        begin, ids, total = self._graphs[BEGIN], [pad], 0.0
        state = begin(self._inputs(row), *([np.array(limit, np.int32)] if LENGTH in begin.inputs else []))
        for position in range(limit):
            logits, *cache = self._graphs[STEP](np.array(ids[-1:], np.int32), np.array(position, np.int32), *state)
            state[len(state) - len(cache) :] = cache
            log_probs_V = _log_softmax(logits[0])
            log_probs_V[pad] = -np.inf
            ids.append(int(given[position] if position < len(given) else log_probs_V.argmax()))
            total += float(log_probs_V[ids[-1]]) if position >= unscored else 0.0
            if ids[-1] == end and position >= len(given):
                break
        return tuple(ids[1:]), total

    def _answer_at_once(self, row: Sequence[int] | np.ndarray, count: int) -> list[Output]:
        log_probs = self._log_probs_at_once(row)
        if self.config["classes"]:
            likeliest = np.argsort(-log_probs, kind="stable")[:count]
            return [((int(one),), float(log_probs[one])) for one in likeliest]
        ids = log_probs.argmax(axis=1).tolist()
        if self.config["eos_id"] in ids:
            ids = ids[: ids.index(self.config["eos_id"]) + 1]
        return [(tuple(ids), float(log_probs.max(axis=1)[: len(ids)].sum()))]

    def _log_probs_at_once(self, row: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns log-probabilities of classes, (C,), or of ids, (P, V), with -inf for padding."""
        (logits,) = self._graphs[MODEL](self._inputs(row))
        log_probs = _log_softmax(logits[0])
        if self.config["classes"]:
            return log_probs
        log_probs_PV = log_probs[: len(row)] if self.config["reads_text"] else log_probs
        log_probs_PV[:, self.config["pad_id"]] = -np.inf
        return log_probs_PV

    def _vocabulary(self, feature: str) -> Any:
        if feature not in self._vocabularies:
            path = self._folder / self.config["vocabularies"][feature]
            readers = runpy.run_path(str(Path(__file__).with_name("vocabularies.py")))  # wherever it is called from
            self._vocabularies[feature] = readers["read_vocabulary"](path, self.config["unspelled"][feature])
        return self._vocabularies[feature]


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits.astype(np.float64), axis=-1, keepdims=True)


def read_lines(stream: Any) -> Iterator[str]:
    r"""Yields the lines of a buffered stream, UTF-8, plain or gzip; they end only at `\n`, with the `\r` before it."""
    if stream.peek(2)[:2] == b"\x1f\x8b":
        stream = gzip.GzipFile(fileobj=stream)
    for number, line in enumerate(stream):
        line = line.removeprefix(b"" if number else b"\xef\xbb\xbf")
        if not number and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
            sys.exit("translate.py: standard input is UTF-16; text must be UTF-8: convert it")
        line = line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line
        yield line.decode(errors="replace").replace("\0", "")


def main() -> None:
    """Translates the lines of standard input; arguments end it with status 2."""
    if sys.argv[1:]:
        said = f"translate.py: argument {sys.argv[1]!r}: it takes none; use python translate.py < lines > outputs"
        print(said, file=sys.stderr)
        sys.exit(2)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends as other filters do, if nobody reads its output
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]  # whatever the locale
    model = Model(Path(__file__).resolve().parent)
    for line in read_lines(sys.stdin.buffer):
        print(re.sub(r"[\n\r]", " ", model.translate(line)), flush=True)


if __name__ == "__main__":
    main()
