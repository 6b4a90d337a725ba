"""Decoding with a model: texts to texts, ids to ids."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t.errors import ArgumentError, UnknownArgumentError, UserError
from t2t.files.lines import without_surrogates
from t2t.hparams.groups import DecodeHParams
from t2t.inference.engine import DecodeRequest, Prefixes
from t2t.inference.hypothesis import Hypothesis, blank_output
from t2t.inference.output_constraints import OutputTerms, constrains_outputs, constraints_of, read_all_terms
from t2t.inference.pair_scorer import PairScorer
from t2t.inference.rows import (
    NOT_FINITE,
    Row,
    as_texts,
    check_ids,
    check_inputs,
    check_lengths,
    check_prefix,
    check_prefixes,
    check_rows,
    check_takes_prefixes,
    positions_in,
)
from t2t.inference.settings import check_whole_number
from t2t.search.result import SearchResult
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from t2t.specs.features import FeatureKind

if TYPE_CHECKING:
    from t2t.inference.attention import Attention

STREAM_WINDOW = 4096
"""Lines that `stream` sorts by length together."""


class Translator(PairScorer):
    """A model with its vocabularies, ready to decode; see `TextModel` for its arguments and `PairScorer` for scores."""

    def encode_prefixes(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of prefixes of outputs; raises UserError if the model does not support them."""
        check_takes_prefixes(self.facts)
        read = [self.problem.read_target(text) for text in as_texts(texts, "prefixes")]
        return self.problem.encoders[TARGETS].encode_batch(read)

    def forced(self, prefixes: Prefixes | None, count: int) -> Prefixes | None:
        """Returns the ids that `count` outputs begin with: the problem's language code, if any, and the prefixes.

        No code is added for models that are not autoregressive.
        """
        start = self._output_start
        if not start or not self.facts.autoregressive:
            return prefixes
        return [[*start, *prefix] for prefix in ([()] * count if prefixes is None else prefixes)]

    def translate(
        self,
        texts: Iterable[str],
        n_best: int = 1,
        *,
        prefixes: Iterable[str] | None = None,
        constraints: Iterable[Any] | None = None,
        **changes,
    ) -> list[list[Hypothesis]]:
        """Returns the `n_best` best outputs of each text, best first, in the order of the texts.

        A blank text has one output, which is empty. A model without inputs (a language model) continues each text. A
        text has fewer than `n_best` outputs where there are no more; samples come in the order drawn. A text that is
        too long is cut, with a warning: of an input the beginning is kept, of what a language model continues the end.
        An output that reaches its limit is `cut`.

        Args:
            texts: any strings. Half of a surrogate pair is read as U+FFFD; NULs are left out.
            n_best: hypotheses for each text, at most the beam.
            prefixes: text that each output begins with, empty for none; its last word may be continued.
            constraints: on the words of each output, a mapping with the names of fields of `OutputTerms`, e.g.
                `{"constraints": ["Haus"]}`; None for none.
            changes: fields of the decode hparams to change, e.g. `beam_size=1`, and `seed` for sampling.

        Raises:
            ArgumentError: `texts` is not a list of texts, or a change is unknown.
            UserError: a change is out of bounds, the search has fewer hypotheses than `n_best`, or the longest output
                for a text is shorter than `min_output_length`.
        """
        texts = as_texts(texts)
        given = None if prefixes is None else self.encode_prefixes(prefixes)
        return self.translate_ids(
            self.encode(texts), n_best, sources=texts, prefixes=given, constraints=constraints, **changes
        )

    def translate_ids(
        self,
        sentences: Sequence[Row],
        n_best: int = 1,
        *,
        sources: Sequence[str] | None = None,
        on_done: Callable[[int], Any] | None = None,
        **how: Any,
    ) -> list[list[Hypothesis]]:
        """Translates ids (without end of sequence) instead of text; see `translate`.

        Args:
            sentences: see `request`.
            n_best: see `translate`.
            sources: see `request`; used for `replace_unknown`, too.
            on_done: called after each batch with the number of sentences in it.
            how: further arguments of `request`.
        """
        request = self.request(sentences, n_best, sources=sources, **how)
        rows, hparams = request.rows, request.hparams
        self.check_min_length(request)
        results = [[blank_output(hparams)] for _ in sentences]
        if on_done is not None and len(rows) < len(sentences):
            on_done(len(sentences) - len(rows))
        texts: Sequence[str | None] = [None] * len(sentences) if sources is None else sources
        for indices, found in self.engine.decode(request) if len(rows) else ():
            numbers = request.sentences[indices]
            outputs = [self.hypotheses(found, i, n_best, sentences[n], texts[n]) for i, n in enumerate(numbers)]
            if hparams.alignments or hparams.replace_unknown:
                read = [(rows[index], texts[n]) for index, n in zip(indices, numbers, strict=True)]
                outputs = self.aligner.annotate(read, outputs, hparams, self.unknown_dictionary)
            if hparams.token_scores:
                outputs = self._with_token_scores([rows[index] for index in indices], outputs, hparams)
            for n, hypotheses in zip(numbers, outputs, strict=True):
                results[n] = hypotheses
            if on_done is not None:
                on_done(len(indices))
        return results

    def request(
        self,
        sentences: Sequence[Row],
        n_best: int = 1,
        *,
        seeds: Sequence[int] | None = None,
        sources: Sequence[str] | None = None,
        prefixes: Prefixes | None = None,
        constraints: Iterable[Any] | None = None,
        scored: bool = True,
        **changes,
    ) -> DecodeRequest:
        """Returns the request to the engine that `translate_ids` makes with these arguments, without blank inputs.

        Args:
            sentences: lists of ids, cut to `longest_input` with a warning; arrays for inputs that are not text.
            n_best: see `translate`.
            seeds: sampling seed of each sentence, used with `seed`, e.g. its line number; 0, 1, 2, ... by default.
            sources: the inputs as text, which decide what is blank, and for problems that use them to post-process or
                to constrain outputs; by default decoded from the ids.
            prefixes: ids that the output of each sentence begins with, without end of sequence.
            constraints: see `translate`.
            scored: whether scores and probabilities are needed; without them an engine may be faster.
            changes: see `translate`.

        Raises:
            ArgumentError: as `translate`, or fewer or more seeds or prefixes than sentences.
            UserError: as `translate`, or ids that the vocabulary of the inputs lacks, or padding.
        """
        settings, hparams = self.settings(n_best, **changes)
        check_rows(sentences, "sentences")
        check_inputs(self.facts, sentences, "sentences")
        if seeds is not None and len(seeds) != len(sentences):
            raise ArgumentError(f"{len(seeds)} seeds for {len(sentences)} inputs; give one for each")
        if prefixes is not None:
            check_prefixes(self.facts, hparams, prefixes, len(sentences))
        terms = None if constraints is None else read_all_terms(constraints, len(sentences))
        numbers = np.arange(len(sentences)) if seeds is None else np.asarray(seeds)
        asked = self._not_blank(sentences, sources)
        if len(asked) < len(sentences):
            sentences = [sentences[n] for n in asked]
            sources, prefixes, terms = (_some(values, asked) for values in (sources, prefixes, terms))
        prefixes = self.forced(prefixes, len(asked))
        return DecodeRequest(
            rows=self.input_rows(sentences, hparams),
            seeds=numbers[asked],
            settings=dataclasses.replace(settings, scored=scored),
            hparams=hparams,
            prefixes=prefixes,
            code_length=len(self._output_start),
            constraints=constraints_of(
                self.problem, self.facts, settings, hparams, sentences, sources, prefixes, terms
            ),
            sentences=asked,
        )

    def check_min_length(self, request: DecodeRequest) -> None:
        """Raises UserError if an output cannot be as long as `min_output_length`, so that none would ever end.

        Constraints are kept to first, so nothing is checked with them.
        """
        shortest = request.settings.min_length + 1
        if shortest == 1 or request.constraints is not None or not self.facts.autoregressive:
            return
        size_of = len if self.reads_text else positions_in(self.model)
        for place, row in enumerate(request.rows):
            longest = max(size_of(row) + request.hparams.extra_length, 1)
            if request.prefixes is not None:
                longest += len(request.prefixes[place]) - request.code_length
            longest = min(longest, self.facts.longest_sequence or longest)
            if shortest > longest:
                raise UserError(
                    f"min_output_length={shortest - 1}: input {request.sentences[place] + 1} has {size_of(row)} ids, "
                    f"and with extra_length={request.hparams.extra_length} its longest output has {longest}, end of "
                    f"sequence included; make min_output_length smaller or extra_length larger"
                )

    def _not_blank(self, sentences: Sequence[Row], sources: Sequence[str] | None) -> np.ndarray:
        """Returns the indices of the inputs that are not blank, see `is_blank`; `sources` as in `request`."""
        if not self.has_inputs or not self.reads_text or INPUTS not in self.problem.encoders:
            return np.arange(len(sentences))
        if sources is None:
            start, decode = self.problem.languages.marks().input_start, self.problem.encoders[INPUTS].decode
            own = (ids[len(start) :] if tuple(ids[: len(start)]) == start else ids for ids in sentences)
            sources = [decode(ids) for ids in own]
        return np.array([n for n, text in enumerate(sources) if not self.is_blank(text)], int)

    def constrains_outputs(self, n_best: int = 1, **changes) -> bool:
        """Returns whether the problem may constrain outputs, depending on the source; see `translate`."""
        _, hparams = self.settings(n_best, **changes)
        return constrains_outputs(self.problem, self.facts, hparams)

    def check_terms(
        self,
        terms: OutputTerms | None,
        n_best: int = 1,
        *,
        prefix: Sequence[int] = (),
        source: str | None = None,
        **changes,
    ) -> None:
        """Raises UserError if no output can begin with the ids of a prefix and satisfy these terms; see `translate`.

        With a source, the output must also satisfy what the problem demands for it, see `constrains_outputs`.
        """
        settings, hparams = self.settings(n_best, **changes)
        if prefix:
            check_prefix(self.facts, hparams, prefix)
        if terms is not None or source is not None:
            prefixes, sources = self.forced([prefix], 1), None if source is None else [source]
            constraints_of(self.problem, self.facts, settings, hparams, [], sources, prefixes, [terms])

    def _with_token_scores(
        self, rows: Sequence[Row], outputs: Sequence[Sequence[Hypothesis]], hparams: DecodeHParams
    ) -> list[list[Hypothesis]]:
        """Returns the outputs of each row with the log-probabilities of their tokens, by another pass over them."""
        flat = [(row, k) for row, hypotheses in enumerate(outputs) for k in range(len(hypotheses))]
        targets = [outputs[row][k].ids for row, k in flat]
        annotated = [list(hypotheses) for hypotheses in outputs]
        found = self._token_scores([rows[row] for row, _ in flat], targets, hparams)
        for (row, k), tokens in zip(flat, found, strict=True):
            annotated[row][k] = dataclasses.replace(outputs[row][k], tokens=tokens)
        return annotated

    def warm_up(self, sentences: Sequence[Row], n_best: int = 1) -> None:
        """Decodes the largest batches of ids (see `translate_ids`), as many as are decoded in parallel."""
        request = self.request(sentences, n_best)
        if len(request.rows):
            self.engine.warm_up(request)

    def attend(self, source: str, target: str | Sequence[int] | None = None, **changes) -> "Attention":
        """Returns the attention weights of an input and its output.

        Args:
            source: an input, cut as in `translate`; without inputs (a language model), the beginning of an output.
            target: the output, as text or as ids with end of sequence; None for the model's best.
            changes: see `translate`, for the model's best.

        Raises:
            UserError: the model has no attention, or a target that `score` refuses, or ids that no output has; or the
                input is blank and has no target.
        """
        (ids,) = self.encode([source])
        if target is None and self.is_blank(source):
            raise UserError(f"{source!r:.60}: a blank input has an empty output, which attends to nothing; give a text")
        if target is None:
            (best,) = self.translate_ids([ids], sources=[source], **changes)[0]
            text, written = best.text, best.ids
        elif isinstance(target, str):
            (own,) = self.encode_targets([target], [source] if self.has_inputs else None, lambda _: "target")
            check_lengths(self.facts, [own], self.hparams)
            text, written = target, (*own, EOS_ID)
        else:
            if self.facts.spec.targets.kind == FeatureKind.TOKENS:
                check_ids(self.facts, target[:-1] if len(target) and target[-1] == EOS_ID else target, "an output")
            text, written = self.problem.decode_target(target), tuple(target)
            check_lengths(self.facts, [written[:-1]], self.hparams)
        (row,) = self.input_rows([ids])
        model = self.model  # first, as in `model_engine`
        from t2t.inference.attention import Attention, attention_maps

        return Attention(source, text, written, attention_maps(model, row, written, self.problem.encoders))

    def stream(
        self, lines: Iterable[str], n_best: int = 1, window: int = STREAM_WINDOW, **changes
    ) -> Iterator[list[Hypothesis]]:
        """Returns an iterator over the outputs of each line in order, which reads `window` lines at a time.

        It takes the changes of `translate`, but no `prefixes` and `constraints`.

        Raises:
            ArgumentError: `lines` is a single text, or `window` is no whole number from 1.
            UserError: as `translate`, before anything is read.
        """
        if isinstance(lines, str) or not isinstance(lines, Iterable):
            raise ArgumentError(
                f"lines={lines!r:.60}: it is of type {type(lines).__name__}; give texts to iterate over"
            )
        check_whole_number("window", window)
        if window < 1:
            raise ArgumentError(f"window={window}: it is a number of lines; give at least 1")
        for name in ("prefixes", "constraints"):
            if name in changes:
                raise UnknownArgumentError(f"stream takes no {name}; give them, and a list of texts, to translate")
        self.settings(n_best, **changes)
        return self._stream(iter(lines), n_best, window, changes)

    def _stream(self, lines: Iterator[str], n_best: int, window: int, changes: dict) -> Iterator[list[Hypothesis]]:
        start = 0
        while texts := list(itertools.islice(lines, window)):
            seeds = range(start, start + len(texts))
            yield from self.translate_ids(self.encode(texts), n_best, seeds=seeds, sources=texts, **changes)
            start += len(texts)

    def hypotheses(
        self, found: SearchResult, row: int, n_best: int, ids_in: Sequence[int], source: str | None
    ) -> list[Hypothesis]:
        """Returns the outputs of a row of a search, with the text that the problem makes of them.

        Args:
            found: of a batch.
            row: of the batch.
            n_best: how many at most.
            ids_in: of the input.
            source: the input as text; None to read it back from the ids.

        Raises:
            UserError: the weights hold NaN or infinity.
        """
        if source is None:
            source = self.problem.decode_input(ids_in) if self.problem.finishes else ""
        kind = self.facts.spec.targets.kind
        is_class, ends = kind == FeatureKind.LABEL, kind == FeatureKind.TOKENS and self.facts.autoregressive
        hypotheses = []
        for k in range(n_best):
            ids = tuple(found.ids[row, k, : found.lengths[row, k]].tolist())
            if ids:
                output = self.problem.decode_target(ids[0] if is_class else ids)
                finished = self.problem.finish(without_surrogates(source), output)
                score, log_prob = float(found.scores[row, k]), float(found.log_probs[row, k])
                cut = ends and ids[-1] != EOS_ID
                hypotheses.append(Hypothesis(finished.text, ids, score, log_prob, finished.repaired, cut=cut))
        if not hypotheses:
            raise UserError(NOT_FINITE)
        return hypotheses


def _some(values: Sequence[Any] | None, indices: Sequence[int] | np.ndarray) -> Any:
    return None if values is None else [values[index] for index in indices]
