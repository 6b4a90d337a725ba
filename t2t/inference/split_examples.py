"""Examples of a split as a translator takes them, and the references that its outputs are scored against."""

import logging
from collections.abc import Callable, Iterator

import numpy as np

from t2t.data.reading.reader import SplitReader, lengths_of
from t2t.inference.rows import Row
from t2t.inference.translator import Hypothesis, Translator
from t2t.problems.base import Problem, feature_of
from t2t.specs import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind

log = logging.getLogger("t2t")


class SplitExamples:
    """Consecutive examples of a split, in its order.

    Args:
        problem: with its encoders.
        reader: of the split.
        limit: index after the last example; None for the end of the split.
        first: index of the first example, from 0.
    """

    def __init__(self, problem: Problem, reader: SplitReader, limit: int | None = None, first: int = 0):
        self._problem, self._reader, self.limit, self.first = problem, reader, limit, first

    def take_tokens(self, tokens: int) -> "SplitExamples":
        """Returns the first examples with at most `tokens` tokens in all on their longer sides, but at least one."""
        names = self._problem.columns or dict.fromkeys(self._reader.features)
        most = min(len(self), tokens)
        stored = [self._stored(name) for name in names]
        indices = np.arange(self.first, self.first + most)
        lengths = [lengths_of(self._reader, name, indices) for name in stored if self._reader.is_sequence(name)]
        if lengths:
            ends = np.cumsum(np.maximum.reduce(lengths))
            most = max(1, int(np.searchsorted(ends, tokens, side="right")))
        return SplitExamples(self._problem, self._reader, self.first + most, self.first)

    def __len__(self) -> int:
        """Number of examples."""
        return max(min(len(self._reader), self.limit or len(self._reader)) - self.first, 0)

    def inputs(self) -> list[Row]:
        """Returns the inputs: ids without end of sequence, or arrays."""
        if self._reader.features[self._stored(INPUTS)].kind == FeatureKind.TOKENS:
            end = 1 + len(self._problem.languages.marks().input_end)
            return [ids[:-end].tolist() for ids in self.arrays(INPUTS)]
        return list(self.arrays(INPUTS))

    def texts(self, feature: str = INPUTS) -> list[str]:
        """Returns a feature as text: the raw text if it was stored, else decoded from the ids."""
        texts = self._reader.texts(self._stored(feature), self.limit)
        if texts is not None:
            return texts[self.first :]
        decode = self._problem.decode_input if feature == INPUTS else self._problem.encoders[feature].decode
        return [decode(ids.tolist()) for ids in self.arrays(feature)]

    @property
    def read_sources(self) -> Callable[[], list[str]] | None:
        """A function that returns the inputs as text; None if they are not text."""
        return self.texts if INPUTS in self._problem.encoders else None

    def references(self) -> list[str]:
        """Returns the targets as raw text, post-processed like outputs; for classes, their names."""
        problem, reader, stored = self._problem, self._reader, self._stored(TARGETS)
        if reader.features[stored].kind == FeatureKind.LABEL:
            return [problem.decode_target(int(class_id)) for class_id in self.arrays(TARGETS)]
        texts = reader.texts(stored, self.limit)
        if texts is not None:
            texts = [feature_of(problem, TARGETS).join_words(text) for text in texts[self.first :]]
        else:
            if not self.first and reader.split == TRAIN and not problem.encoders[TARGETS].lossless:
                log.warning(
                    "train: references are read back from ids, so words that the vocabulary lacks count as equal, and "
                    "texts are as it changes them"
                )
            texts = [problem.decode_target(ids.tolist()) for ids in self.arrays(TARGETS)]
        if not problem.finishes:
            return texts
        return [problem.finish(source, text).text for source, text in zip(self.texts(), texts, strict=True)]

    def decode(self, translator: Translator, n_best: int = 1, **changes) -> list[list[Hypothesis]]:
        """Returns the outputs, see `Translator.translate_ids`."""
        sources = self.read_sources() if self.read_sources else None
        outputs = translator.translate_ids(self.inputs(), n_best, sources=sources, **changes)
        if cut := sum(one.cut for found in outputs for one in found):
            extra_length = changes.get("extra_length", translator.hparams.extra_length)
            log.info(
                "%s of %s outputs of %s end at their limit, the length of the input and extra_length=%d",
                f"{cut:,}", f"{sum(map(len, outputs)):,}", self._reader.split, extra_length,
            )  # fmt: skip
        return outputs

    def arrays(self, feature: str) -> Iterator[np.ndarray]:
        """Yields the stored values of a feature, one array per example, without padding."""
        indices, stored = self.first + np.arange(len(self)), self._stored(feature)
        if self._reader.is_sequence(stored):
            values, lengths = self._reader.read(indices, stored)
            yield from np.split(values, np.cumsum(lengths)[:-1])
        else:
            yield from self._reader.single(indices, stored)

    def _stored(self, feature: str) -> str:
        return (self._problem.columns or {}).get(feature, feature)
