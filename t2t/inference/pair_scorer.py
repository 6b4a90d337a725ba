"""Scores and aligns given pairs of inputs and outputs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.files.pharaoh import Links
from t2t.hparams.groups import DecodeHParams
from t2t.inference.rows import (
    NOT_FINITE,
    Row,
    as_pairs,
    as_texts,
    check_inputs,
    check_lengths,
    check_row_pairs,
    check_targets,
)
from t2t.inference.text_model import TextModel
from t2t.specs.constants import EOS_ID, TARGETS
from t2t.specs.features import FeatureKind

Tokens = tuple[tuple[str, float], ...]
"""The pieces of an output with their log-probabilities."""


class PairScorer(TextModel):
    """A model that scores given outputs and aligns their words with words of the inputs."""

    def encode_targets(
        self,
        texts: Iterable[str],
        sources: Sequence[str] | None = None,
        name_of: Callable[[int], str] = "targets[{}]".format,
    ) -> list[list[int]]:
        """Returns the ids of outputs: those that `Languages.marks` puts in front, then the text, no end of sequence.

        Args:
            texts: outputs, as `translate` gives them.
            sources: the input of each, as text; None if they are not known.
            name_of: names an output, by its index, in errors.

        Raises:
            UserError: a text is no output for its input, or targets are classes.
        """
        self._check_scores()
        read = self.read_targets(texts, sources, name_of)
        rows, start = self.problem.encoders[TARGETS].encode_batch(read), self._output_start
        return [[*start, *row] for row in rows] if start else rows

    def read_targets(
        self, texts: Iterable[str], sources: Sequence[str] | None, name_of: Callable[[int], str]
    ) -> list[str]:
        """Returns outputs as the texts that are encoded, see `Problem.read_target`; arguments as `encode_targets`."""
        texts, read = as_texts(texts), []
        given: Sequence[str | None] = [None] * len(texts) if sources is None else sources
        for index, (text, source) in enumerate(zip(texts, given, strict=True)):
            try:
                read.append(self.problem.read_target(text, source))
            except UserError as error:
                raise UserError(f"{name_of(index)}: {error}") from None
        return read

    @property
    def _output_start(self) -> tuple[int, ...]:
        """Ids that each output begins with."""
        return self.problem.languages.marks().output_start

    def score(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        """Returns ln p(target | source), end of sequence included, of each (source, target) pair.

        Without inputs the sources are ignored. Sources are cut as in `translate`, targets are not.

        Raises:
            ArgumentError: something else than pairs of texts.
            UserError: see `score_ids`.
        """
        sources, targets = as_pairs(pairs)
        ids = self.encode(sources) if self.has_inputs else [()] * len(sources)
        return self.score_ids(ids, self.encode_targets(targets, sources if self.has_inputs else None))

    def score_ids(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        on_done: Callable[[int], Any] | None = None,
    ) -> list[float]:
        """Scores ids (without end of sequence) instead of text; see `score`.

        Args:
            sources: lists of ids; longer ones than `longest_input` are cut, with a warning.
            targets: as many lists of ids; `ids` of a hypothesis without the end of sequence that they may end with.
            on_done: called after each batch with the number of pairs in it.

        Raises:
            UserError: a target is longer than `longest_target` (cutting it would change its probability), targets are
                classes, or ids are padding, end of sequence within a target, or none of the vocabulary.
        """
        self._check_scores()
        self._check_pairs(sources, targets)
        if not len(targets):
            return []
        check_lengths(self.facts, targets, self.hparams)
        rows = self.input_rows(sources) if self.has_inputs else [()] * len(targets)
        scores = np.zeros(len(targets), np.float64)
        for indices, found in self.engine.score(rows, [[*ids, EOS_ID] for ids in targets], self.hparams):
            scores[indices] = found
            if on_done is not None:
                on_done(len(indices))
        if not np.isfinite(scores).all():
            raise UserError(NOT_FINITE)
        return (scores + 0.0).tolist()  # no -0.0

    def score_tokens(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        on_done: Callable[[int], Any] | None = None,
    ) -> list[Tokens]:
        """Returns the pieces of each target, end of sequence included, with their log-probabilities.

        Arguments and errors are those of `score_ids`.
        """
        self._check_scores()
        self._check_pairs(sources, targets)
        check_lengths(self.facts, targets, self.hparams)
        rows = self.input_rows(sources) if self.has_inputs else [()] * len(targets)
        return self._token_scores(rows, [[*ids, EOS_ID] for ids in targets], self.hparams, on_done)

    def _token_scores(
        self,
        rows: Sequence[Row],
        targets: Sequence[Sequence[int]],
        hparams: DecodeHParams,
        on_done: Callable[[int], Any] | None = None,
    ) -> list[Tokens]:
        """Returns the pieces of each target with their log-probabilities; `rows` are inputs as the model reads them.

        The problem's language code, with which every output begins, is certain, as in `Hypothesis.log_prob`.
        """
        encoder, begun = self.problem.encoders[TARGETS], len(self._output_start)
        scored: list[Tokens] = [()] * len(targets)
        for indices, found in self.engine.score_tokens(rows, targets, hparams) if len(targets) else ():
            for index, log_probs in zip(indices, found, strict=True):
                values = [0.0] * begun + [float(value) + 0.0 for value in log_probs[begun:]]
                scored[index] = tuple(zip(map(encoder.piece, targets[index]), values, strict=True))
            if on_done is not None:
                on_done(len(indices))
        return scored

    def align(self, pairs: Iterable[tuple[str, str]], **changes) -> list[Links]:
        """Returns the word alignment of each (source, target) pair, links (word of the source, word of the target).

        Each word of the target is linked to one word of the source, both counted from 0. Sources are cut as in
        `translate`, targets are not.

        Args:
            pairs: of texts.
            changes: `alignment_layer` and `alignment_head`.

        Raises:
            ArgumentError: something else than pairs of texts, or an unknown change.
            UserError: see `align_ids`.
        """
        sources, targets = as_pairs(pairs)
        texts = list(zip(sources, targets, strict=True))
        return self.align_ids(self.encode(sources), self.encode_targets(targets, sources), texts=texts, **changes)

    def align_ids(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        texts: Sequence[tuple[str, str]] | None = None,
        on_done: Callable[[int], Any] | None = None,
        **changes,
    ) -> list[Links]:
        """Aligns ids (without end of sequence) instead of text; see `align` and `score_ids`.

        `texts` are the pairs of texts whose words are counted; None to count those of the decoded ids.

        Raises:
            UserError: no layer attends to the inputs, or pairs that `score_ids` refuses.
        """
        _, hparams = self.settings(alignments=True, **changes)
        self._check_pairs(sources, targets)
        check_lengths(self.facts, targets, self.hparams)
        rows = self.input_rows(sources)
        ended = [[*ids, EOS_ID] for ids in targets]
        first, second = zip(*texts, strict=True) if texts else (None, None)
        found = self.aligner.links(rows, ended, hparams, sources=first, targets=second) if rows else []
        if on_done is not None:
            on_done(len(found))
        return found

    def _check_pairs(self, sources: Sequence[Row], targets: Sequence[Sequence[int]]) -> None:
        check_row_pairs(sources, targets)
        if self.has_inputs:
            check_inputs(self.facts, sources, "sources")
        check_targets(self.facts, targets)

    def _check_scores(self) -> None:
        if self.facts.spec.targets.kind == FeatureKind.LABEL:
            raise UserError(
                f"scoring outputs of {self.problem.name}: they are classes; decode with n_best instead, which "
                f"gives the probabilities of the likeliest (t2t-decoder: with --output_format=tsv)"
            )
