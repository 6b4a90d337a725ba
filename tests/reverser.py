"""A translator without a model, for tests of the processing of files."""

import hashlib
from types import SimpleNamespace

import numpy as np

from t2t.errors import UserError
from t2t.features.feature import Feature
from t2t.hparams.groups import DecodeHParams
from t2t.inference.translator import Hypothesis, Translator
from t2t.search.settings import SearchSettings


class Reverser:
    """Outputs each text reversed, with its position in the file; ids are code points. Fails on texts with `breaks`.

    Outputs of `unfinished` texts are cut at their limit.
    """

    def __init__(self, longest_input=50, has_inputs=True, weights="w", breaks=None, longest_target=None, unfinished=()):
        self.unfinished = unfinished
        self.longest_input, self.has_inputs, self.weights, self.breaks = longest_input, has_inputs, weights, breaks
        self.longest_target = longest_target or longest_input
        self.asked = []
        """All translated texts in order."""

    @property
    def most_ids(self):
        return f"the {self.longest_target + 1} ids that max_input_length allows"

    def settings(self, n_best=1, *, seed=0, **changes):
        if n_best > 4:
            raise UserError(f"n_best={n_best}: too many")
        return SearchSettings(seed=seed), DecodeHParams(**changes)

    def fingerprint(self):
        return hashlib.sha256(self.weights.encode()).hexdigest()

    def encode(self, texts):
        return [[ord(letter) for letter in text] for text in texts]

    hparams, is_blank, problem = DecodeHParams(), Translator.is_blank, None
    reads_text = True
    encode_prefixes = encode

    def encode_targets(self, texts, sources=None, name_of=None):
        return Reverser.encode(self, texts)

    def read_targets(self, texts, sources, name_of):
        return texts

    def constrains_outputs(self, n_best=1, **changes):
        return False

    def check_terms(self, terms, n_best=1, *, prefix=(), source=None, **changes):
        """Any output is possible."""

    def score_ids(self, sources, targets, *, on_done=None):
        """Returns scores that reveal the pair: -(1000 * source length + target length)."""
        texts = ["".join(map(chr, ids)) for ids in targets]
        if self.breaks and any(self.breaks in text for text in texts):
            raise ConnectionError("the power is gone")
        self.asked += texts
        if on_done:
            on_done(len(texts))
        return [0.0 - (1000.0 * len(source) + len(target)) for source, target in zip(sources, targets, strict=True)]

    def translate_ids(self, sentences, n_best=1, *, seeds=None, prefixes=None, on_done=None, **changes):
        texts = ["".join(map(chr, ids)) for ids in sentences]
        if self.breaks and any(self.breaks in text for text in texts):
            raise ConnectionError("the power is gone")
        self.asked += texts
        on_done(len(texts))
        return [
            [
                Hypothesis(
                    f"{text[::-1]}@{seed}" + "!" * rank,
                    (1,) * (len(text) + 1),
                    -1.0 - rank,
                    -2.0 - rank,
                    cut=text in self.unfinished,
                )
                for rank in range(n_best)
            ]
            for text, seed in zip(texts, seeds, strict=True)
        ]


class Bytes(Feature):
    """The bytes of a file."""

    def read_file(self, path):
        return np.frombuffer(path.read_bytes(), np.uint8)


class FileReverser(Reverser):
    """Reads inputs from files, whose bytes are code points."""

    reads_text = False
    problem = SimpleNamespace(features={"inputs": Bytes()}, constraint=None)
