"""Imports of foreign models in tests: how they are asked for, what their runs answer, and edits of their files.

Legend: T target length, V vocabulary.
"""

import json

import numpy as np

from t2t.inference.translator import Translator
from t2t.registry import IMPORTERS, MODELS
from t2t.runs.importing import import_run
from t2t.runs.loading import load
from t2t.runs.names import request_import
from tests.builders import numpy, padded
from tests.errors import refused


class Import:
    """A foreign model in the folder `model`, and the run in the folder `run` that it becomes."""

    def __init__(self, folder, kind, **given):
        self.folder, self.model, self.run = folder, folder / "model", folder / "run"
        self._given = {"format": kind, "model_dir": self.model, "output_dir": self.run, **given}

    def _request(self, given):
        return request_import(**self._given | given)

    def read(self, **given):
        """Reads the model, without making a run of it."""
        request = self._request(given)
        return IMPORTERS.get(request.format)(request)

    def build(self, **given):
        """Returns a translator with the weights as they are read, and what was read; without a run in between."""
        read = self.read(**given)
        model, weights = MODELS.get(read.model)(read.hparams.replace().freeze(), read.problem.spec()), {**read.weights}
        for variable in model.variables:
            variable.assign(weights.pop(variable.path.partition("/")[2]))
        assert not weights
        return Translator(read.problem, model, read.hparams), read

    def report(self, **given):
        """Imports the model and returns the report alone."""
        return import_run(self._request(given))

    def __call__(self, decoding="", **given):
        """Imports the model and returns the loaded run and the report."""
        report = self.report(**given)
        return load(self.run, decode_overrides=decoding), report

    def is_refused(self, *named, **given):
        """Checks that the model is refused, by an error that names all of `named`, and that no run is left."""
        with refused(*named):
            self.report(**given)
        assert not self.run.exists()

    def replace(self, name, content=None):
        """Writes bytes, or values as JSON, into a file of the model; without content, removes the file."""
        if content is None:
            (self.model / name).unlink()
        else:
            (self.model / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def log_probs(loaded, source, target):
    """Returns log-probabilities (T, V) of all ids at each position of a target; both with end of sequence."""
    batch = {"inputs": np.array([[*source, 0, 0]], np.int32), "targets": np.array([[*target, 0]], np.int32)}
    logits_TV = numpy(loaded.model(batch))[0, : len(target)]
    return logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))


def check_scores(loaded, pairs, expected, atol=1e-5):
    """Compares log-probabilities of the tokens of target texts, in one padded batch, with a list for each pair."""
    rows = [
        [[*loaded.problem.encoders[name].encode(text), 1] for text in texts]
        for name, texts in zip(("inputs", "targets"), zip(*pairs, strict=True), strict=True)
    ]
    batch = {"inputs": padded(rows[0], 1 + max(map(len, rows[0]))), "targets": padded(rows[1])}
    found = numpy(loaded.model.score_targets(batch).log_probs)
    for ids, found_T, expected_T in zip(rows[1], found, expected, strict=True):
        np.testing.assert_allclose(found_T[: len(ids)], expected_T, atol=atol)


def check_words(loaded, network, tokens, pairs, *, start, end, unknown=None, ends_inputs=True):
    """Compares the scores of texts with a network's, by the ids that a toolkit gives to words.

    Unknown words have the id `unknown`, by default the one behind the tokens; so do words spelt like special tokens.
    """

    def ids_of(text, words):
        other = len(words) if unknown is None else unknown
        return [words.index(word) if word in words and "<" not in word else other for word in text.split()]

    expected = []
    for pair in pairs:
        source, target = map(ids_of, pair, tokens)
        log_probs_TV = network.log_probs(source + [end] * ends_inputs, [*target, end], start)
        expected.append(log_probs_TV[range(len(target) + 1), [*target, end]])
    check_scores(loaded, pairs, expected)


# === Edits of values and tensors before a model is written ===
def setting(**changes):
    return lambda values, tensors: values.update(changes)


def put(name, array):
    return lambda values, tensors: tensors.__setitem__(name, np.asarray(array, np.float32))


def drop(name):
    return lambda values, tensors: tensors.pop(name)
