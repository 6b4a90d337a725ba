"""Base class of exports to small runtimes: a graph to start decoding, one for a step, and a script that searches.

Legend: N rows decoded together, V vocabulary.
"""

import json
import shlex
import shutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from t2t.backends.base import inputs_signature
from t2t.errors import UserError, one_line
from t2t.formats import graph_script
from t2t.formats.exporter import GREEDY, GREEDY_SEARCH, Export, ExportJob, Trial
from t2t.formats.exporting import example_shape, example_text
from t2t.formats.graph_script import BEGIN, CONFIG, GRAPHS, LENGTH, MODEL, STEP
from t2t.formats.parity import (
    FLOAT32,
    PROMISES,
    ComparedOutput,
    Parity,
    ParityError,
    answers_of_run,
    compare,
    compare_per_token,
    difference_per_token,
    largest_difference,
)
from t2t.inference.growing_search import unknown_sizes
from t2t.inference.rows import positions_in, reads_ids
from t2t.inference.translator import Translator
from t2t.layers.mode import in_mode
from t2t.problems.base import feature_of
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.specs.features import FeatureKind

SCRIPT = "translate.py"


class TracedGraph:
    """A function to convert to a graph.

    Args:
        signature: specifications of the inputs, each with a name.
        function: takes tensors; returns a list of tensors.
    """

    def __init__(self, signature: Sequence[tf.TensorSpec], function: Callable):
        def named(*given):
            return {f"output_{n:03d}": tf.identity(one) for n, one in enumerate(function(*given))}

        self.signature = list(signature)
        self.traced = tf.function(named, input_signature=self.signature, autograph=False)
        self.concrete = self.traced.get_concrete_function()

    def names(self) -> dict[str, list[str]]:
        """Returns the names of the inputs and outputs, in order."""
        outputs = sorted(self.concrete.structured_outputs)
        return {"inputs": [spec.name for spec in self.signature], "outputs": outputs}


class GraphExport(Export):
    """Exports graphs `begin` and `step` of an autoregressive model, or `model` of any other."""

    search = GREEDY_SEARCH
    format: ClassVar[str]
    """Name of the format, and of its runtime in the script."""
    needs: ClassVar[str]
    """The package of the runtime."""
    grows: ClassVar[bool]
    """Whether the state grows at each step, which is faster; else it is allocated for `length` ids at the start."""
    others: ClassVar[str]
    """Formats to suggest for models that this one does not support."""

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        self._model = translator.model
        if self._model.mask_predicts:
            name = type(self._model).__name__
            raise self.refusal(
                f"its script searches token by token, and {name} is decoded by mask-predict", "use saved_model"
            )
        given = inputs_signature(self._model)
        self._inputs = tf.TensorSpec(given.shape, given.dtype, name=INPUTS)

    @abstractmethod
    def convert(self, graphs: Mapping[str, TracedGraph], folder: Path) -> None:
        """Writes graphs by name; raises UserError with `cannot_hold` if one cannot be converted."""

    @abstractmethod
    def describe_files(self) -> str:
        """Returns the start of a README sentence about the graph files; their names follow."""

    def cannot_hold(self, what: str, reason: str) -> UserError:
        """Returns the error for a model that cannot be converted."""
        found = f"the converter does not manage {what} of {type(self._model).__name__}: {reason[:300]}"
        return self.refusal(found, f"use {self.others}")

    def write(self, folder: Path) -> None:
        """Writes graphs, vocabularies, configuration and script; raises UserError if a graph cannot be converted."""
        with in_mode(for_converters=True):
            graphs = self._graphs()
            self.convert(graphs, folder)
        names = {name: graph.names() for name, graph in graphs.items()}
        for name, content in ((GRAPHS, names), (CONFIG, self._config(folder))):
            (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        shutil.copyfile(graph_script.__file__, folder / SCRIPT)

    def _config(self, folder: Path) -> dict[str, Any]:
        """Writes the vocabularies; returns the configuration that the script reads."""
        model, problem, targets = self._model, self.translator.problem, self._model.spec.targets
        files, gives_classes = self.write_vocabularies(folder), targets.kind == FeatureKind.LABEL
        return {
            "runtime": self.format,
            "autoregressive": model.autoregressive,
            "reads_text": reads_ids(model),
            "has_inputs": self.translator.has_inputs,
            "single_spaces": self.translator.has_inputs and feature_of(problem, INPUTS).single_spaces,
            "longest_input": self.translator.longest_input,
            "longest_output": model.longest_sequence,
            "extra_length": self.translator.hparams.extra_length,
            "pad_id": PAD_ID,
            "eos_id": EOS_ID,
            **problem.languages.marks()._asdict(),
            "classes": [problem.decode_target(one) for one in range(targets.vocab_size)] if gives_classes else None,
            "vocabularies": {name: file.file for name, file in files.items()},
            "unspelled": {name: sorted(problem.encoders[name].unspelled) for name in files},
        }

    # === Graphs ===

    def _graphs(self) -> dict[str, TracedGraph]:
        if not self._model.autoregressive:
            return {MODEL: TracedGraph([self._inputs], lambda inputs: [self._model({INPUTS: inputs})])}
        given = [self._inputs] if self.grows else [self._inputs, tf.TensorSpec([], tf.int32, LENGTH)]
        start = tf.function(self._start_decode, input_signature=given, autograph=False)
        state = start.get_concrete_function().structured_outputs
        leaves = [unknown_sizes(leaf) for leaf in tf.nest.flatten(state)]
        leaves = [tf.TensorSpec(leaf.shape, leaf.dtype, f"state_{n:03d}") for n, leaf in enumerate(leaves)]

        def step(ids_N, position, *leaves):
            encoded, cache = tf.nest.pack_sequence_as(state, leaves)
            prepared = self._model.prepare_decode(encoded if self._model.spec.inputs else None)
            logits_NV, cache = self._model.decode_step(ids_N, position, cache, prepared)
            return [logits_NV, *tf.nest.flatten(cache)]

        numbers = [tf.TensorSpec([None], tf.int32, "ids"), tf.TensorSpec([], tf.int32, "position")]
        begin = TracedGraph(given, lambda *given: tf.nest.flatten(self._start_decode(*given)))
        return {BEGIN: begin, STEP: TracedGraph([*numbers, *leaves], step)}

    def _start_decode(self, inputs: tf.Tensor, length: tf.Tensor | None = None) -> tuple:
        """Returns the encoded inputs and the initial decoding state; with a `length`, the state has a fixed size."""
        encoded = self._model.encode({INPUTS: inputs}) if self._model.spec.inputs else None
        return () if encoded is None else encoded, self._model.init_cache(encoded, tf.shape(inputs)[0], length)

    # === Comparison ===

    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Compares the outputs of greedy search, or of a model that is not autoregressive.

        For rounded weights, also compares the log-probabilities of the run's outputs.
        """
        if self._model.autoregressive:
            what, expected = "greedy search", answers_of_run(self.translator, trial.rows, **GREEDY)
        else:
            what, expected = "answers", answers_of_run(self.translator, trial.rows, self.job.n_best)
        promise, is_exact = PROMISES[self.job.quantization], self.job.quantization == FLOAT32
        found = {}
        answers, scores = self._answers(folder, trial, [answers[0].ids or () for answers in expected])
        if not is_exact:
            of = "log-probability of the run's output of each line, nats per token"
            found[of] = compare_per_token([answers[0] for answers in expected], scores).demand(of, promise)
        measure = largest_difference if is_exact else difference_per_token
        return found | {what: compare(expected, answers, measure).demand(what, promise)}

    def _answers(
        self, folder: Path, trial: Trial, outputs: Sequence[Sequence[int]]
    ) -> tuple[list[list[ComparedOutput]], list[float]]:
        """Returns the outputs of the graphs, and the log-probabilities of `outputs`, computed by the exported script.

        Raises:
            ParityError: a graph fails, or the script reads other ids of a text than the run.
        """
        size_of, extra_length = positions_in(self._model), self.translator.hparams.extra_length
        rows = self.translator.input_rows(trial.rows)
        try:
            model = graph_script.Model(folder)
            read = rows if trial.texts is None else [model.row(text) for text in trial.texts]
            answers = [model.answer(row, max(size_of(row) + extra_length, 1), self.job.n_best) for row in rows]
            is_exact = self.job.quantization == FLOAT32
            scores = [] if is_exact else [model.score(row, ids) for row, ids in zip(rows, outputs, strict=True)]
        except Exception as error:  # the runtime raises many classes
            said = f"{type(error).__name__}: {one_line(error)[:300]}"
            raise ParityError(f"it fails where the run answers ({said})", "the export is not kept") from error
        for text, ours, theirs in zip(trial.texts or (), rows, read, strict=False):
            if list(ours) != theirs:
                raise ParityError(
                    f"{text[:80]!r} has the ids {theirs}, and {ours} in the run", "the export is not kept"
                )
        text_of = model.text if TARGETS in self.translator.problem.encoders else lambda ids: None
        return [[ComparedOutput(ids, log_prob, text_of(ids)) for ids, log_prob in found] for found in answers], scores

    # === README ===

    def usage(self) -> str:
        """See the base class."""
        example = self._text_example() if reads_ids(self._model) else self._array_example()
        ended = f"ids, each row ended by {EOS_ID}, zero padded" if self.translator.has_inputs else "ids, zero padded"
        given = ended if reads_ids(self._model) else f"{self._inputs.dtype.name}, {self._inputs.shape}"
        files, length = self.describe_files(), "" if self.grows else f", and `{LENGTH}`, the most ids of an output,"
        if not self._model.autoregressive:
            return f"{example}\n{files} `{MODEL}`: it gives the logits of `{INPUTS}` ({given}).\n"
        return f"""{example}
{files} `{BEGIN}` and `{STEP}`; `{GRAPHS}` names their inputs and outputs in order.

1. `{BEGIN}` is given `{INPUTS}` ({given}){length} and gives the state.
2. `{STEP}` is given `ids` (the last id of each row, {PAD_ID} at first), `position` (0, 1, ...) and the state. It gives
   the logits of the next id, and what the last tensors of the state are from then on; the ones before stay as they are.

Id {PAD_ID} is never taken, id {EOS_ID} ends an output.
"""

    def _text_example(self) -> str:
        return f"""
`{SCRIPT}`, which may be called from anywhere, writes an output for each line that it reads, by greedy search. It needs
{self._packages()}.

```bash
echo {shlex.quote(example_text(self.translator))} | python {SCRIPT}
```
"""

    def _packages(self) -> str:
        *first, last = ["numpy", self.needs, *self.packages_of_vocabularies()]
        return f"{', '.join(first)} and {last}"

    def _array_example(self) -> str:
        shape, dtype = example_shape(self._model), self._inputs.dtype.name
        limit = ""
        if self._model.autoregressive:
            limit = f", limit={positions_in(self._model)(np.zeros(shape)) + self.translator.hparams.extra_length}"
        return f"""
`{SCRIPT}` answers one input at a time; it needs numpy and {self.needs}. `limit` is the most ids of an output.

```python
import sys

import numpy as np

folder = "."  # run this in the folder of the export, or name the folder
sys.path.insert(0, folder)
from translate import Model

((ids, log_prob),) = Model(folder).answer(np.zeros({shape}, "{dtype}"){limit})
print(ids, log_prob)
```
"""
