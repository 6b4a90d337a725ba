"""Decoding and scoring with a model: texts to texts, ids to ids, pairs to probabilities."""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import t2t
from t2t.decoding.result import SearchResult
from t2t.decoding.settings import SearchSettings
from t2t.errors import ArgumentError, UserError
from t2t.files.lines import without_surrogates
from t2t.files.pharaoh import Links
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.engine import Engine, Prefixes
from t2t.inference.hypothesis import Hypothesis
from t2t.inference.model_facts import LazyModel, ModelFacts, max_answers
from t2t.inference.prefixes import check_prefixes, check_takes_prefixes
from t2t.inference.rows import NOT_FINITE, Row, check_lengths, cut_rows, describe_max_ids, max_sequence_ids, reads_ids
from t2t.inference.settings import search_settings
from t2t.inference.shortlist.shortlist import Shortlist
from t2t.inference.texts import as_pairs, as_texts, check_row_pairs, check_rows
from t2t.problems.base import Problem
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from t2t.specs.features import FeatureKind

if TYPE_CHECKING:
    from t2t.inference.alignment import WordAligner
    from t2t.inference.attention import Attention
    from t2t.inference.parallel import Sharing
    from t2t.inference.tensorflow_engine import TensorFlowEngine
    from t2t.models.base import SequenceModel

STREAM_WINDOW = 4096
"""Lines that `stream` sorts by length together."""


class Translator:
    """A model with its vocabularies, ready to decode; for a model that answers at once, search hparams do not count.

    Args:
        problem: with its encoders; turns text into ids and back.
        model: with its weights; one that is not built yet is built when something needs it.
        hparams: how to search by default; any call may ask otherwise.
        sharing: workers that decode and score together, each with the same model; all of them make the same calls.
        engine: what decodes and scores; default: TensorFlow, which does what an engine does not in any case.

    Raises:
        UserError: the model answers at once, and there are no inputs to answer.
    """

    read_shortlist: Callable[[], Shortlist] | None = None
    """Reads the shortlist of the run, where the model is of one."""
    unknown_dictionary: Mapping[str, str] = {}
    """Translations of words of inputs, for `replace_unknown`; a word without one is copied."""

    def __init__(
        self,
        problem: Problem,
        model: "SequenceModel | LazyModel",
        hparams: DecodeHParams,
        sharing: "Sharing | None" = None,
        engine: Engine | None = None,
    ):
        if not model.autoregressive and model.spec.inputs is None:
            raise UserError(
                f"decoding {problem.name} with {type(model).__name__}: the model answers inputs at once, and there are "
                f"none; evaluate it with t2t-eval"
            )
        self.problem, self.hparams = problem, hparams
        self.facts: ModelFacts = model
        """What is known of the model without building it."""
        self.has_inputs = model.spec.inputs is not None
        self._model, self._sharing = model, sharing
        if engine is not None:
            self.engine = engine

    @property
    def model(self) -> "SequenceModel":
        """The model, which is built now unless it has been."""
        return self._model.build() if isinstance(self._model, LazyModel) else self._model

    @functools.cached_property
    def tensorflow(self) -> "TensorFlowEngine":
        """Decodes and scores with the model itself."""
        model = self.model  # before TensorFlow is imported: who builds a model may want that to be quiet
        from t2t.inference.tensorflow_engine import TensorFlowEngine

        engine = TensorFlowEngine(model, self._sharing)
        engine.read_shortlist = self.read_shortlist
        return engine

    @functools.cached_property
    def engine(self) -> Engine:
        """What decodes and scores: TensorFlow, unless another engine is given."""
        return self.tensorflow

    @functools.cached_property
    def aligner(self) -> "WordAligner":
        """Aligns outputs with their inputs, by the model itself whatever decodes; raises as `WordAligner`."""
        model = self.model  # first, as in `tensorflow`
        from t2t.inference.alignment import WordAligner

        return WordAligner(model, self.problem)

    @property
    def is_built(self) -> bool:
        """Whether the model was there from the start; otherwise another engine decodes as long as it can."""
        return not isinstance(self._model, LazyModel)

    @property
    def reads_text(self) -> bool:
        """Whether it goes on from texts: inputs, or beginnings of outputs."""
        return reads_ids(self.facts)

    @property
    def rewrites_text(self) -> bool:
        """Whether texts of outputs are something else than what the vocabulary reads from their ids."""
        problem = self.problem
        return problem.finishes or bool(problem.continuation_mark) or self.hparams.replace_unknown

    @property
    def longest_input(self) -> int:
        """Most ids of an input, without end of sequence; longer ones are cut. Targets to score have the same limit."""
        return max_sequence_ids(self.facts, self.hparams) - 1

    @property
    def most_ids(self) -> str:
        """How many ids that is with end of sequence, and what has set it, for a message."""
        return describe_max_ids(self.facts, self.hparams)

    def fingerprint(self) -> str:
        """Returns a sha256 of what decides its outputs: weights, vocabularies, problem, engine, version of t2t."""
        model = self.facts.hparams.to_dict()["model"]
        average = getattr(self._model, "average", "")  # of an ensemble
        made_by = f"{t2t.__version__} {self.engine.name} {self.problem.name} {model} {average}"
        digest = hashlib.sha256(made_by.encode())
        for name, encoder in sorted(self.problem.encoders.items()):
            digest.update(f"\0{name} {encoder.fingerprint}".encode())
        if self.hparams.shortlist:
            digest.update(f"\0shortlist {self.tensorflow.shortlist.fingerprint}".encode())
        if self.unknown_dictionary:
            digest.update(f"\0dictionary {sorted(self.unknown_dictionary.items())}".encode())
        for path, weight in self._weights():
            digest.update(f"\0{path} {weight.shape} {weight.dtype}".encode())
            digest.update(np.ascontiguousarray(weight).tobytes())
        return digest.hexdigest()

    def _weights(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields the weights in the order of their paths."""
        if isinstance(self._model, LazyModel):
            yield from sorted(self._model.weights.items())
        else:
            for variable in sorted(self._model.variables, key=lambda v: v.path):
                yield variable.path, np.asarray(variable)

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of inputs (of beginnings of outputs, for a language model), without end of sequence."""
        texts = as_texts(texts)
        if not self.reads_text:
            kind = self.facts.spec.inputs.kind if self.facts.spec.inputs else "absent"
            raise UserError(f"inputs of {self.problem.name} are {kind}, not text; give arrays of them to translate_ids")
        return self.problem.encoders[INPUTS if self.has_inputs else TARGETS].encode_batch(texts)

    def is_blank(self, text: str) -> bool:
        """Returns whether an input has nothing to translate: its output is empty, without asking the model."""
        return self.has_inputs and not text.strip()

    def encode_prefixes(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of beginnings of outputs; raises UserError where outputs cannot begin with what is given."""
        check_takes_prefixes(self.facts)
        return self.problem.encoders[TARGETS].encode_batch(as_texts(texts, "prefixes"))

    def encode_targets(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of outputs, without end of sequence."""
        self._check_scores()
        return self.problem.encoders[TARGETS].encode_batch(as_texts(texts))

    def translate(
        self, texts: Iterable[str], n_best: int = 1, *, prefixes: Iterable[str] | None = None, **changes
    ) -> list[list[Hypothesis]]:
        """Returns the `n_best` best outputs of each text, best first, in the order of the texts.

        A model without inputs (a language model) continues each text. A text has fewer than `n_best` outputs where
        there are no more; samples come in the order drawn.

        Args:
            texts: any strings. Half of a surrogate pair is read as U+FFFD.
            n_best: hypotheses for each text, at most the beam.
            prefixes: what the output of each text begins with, whole words; empty for nothing.
            changes: fields of the decode hparams to change, e.g. `beam_size=1`, and `seed` for sampling.

        Raises:
            ArgumentError: something else than a list of texts, or an unknown change.
            UserError: a change that is out of bounds, or more hypotheses than the search has.
        """
        texts = as_texts(texts)
        given = None if prefixes is None else self.encode_prefixes(prefixes)
        return self.translate_ids(self.encode(texts), n_best, sources=texts, prefixes=given, **changes)

    def translate_ids(
        self,
        sentences: Sequence[Row],
        n_best: int = 1,
        *,
        places: Sequence[int] | None = None,
        sources: Sequence[str] | None = None,
        prefixes: Prefixes | None = None,
        scored: bool = True,
        on_done: Callable[[int], Any] | None = None,
        **changes,
    ) -> list[list[Hypothesis]]:
        """Translates ids (without end of sequence) instead of text; see `translate`.

        Args:
            sentences: lists of ids; longer ones than `longest_input` are cut, with a warning. Arrays of inputs that
                are no text.
            n_best: see `translate`.
            places: what names each sentence when sampling, e.g. its line number; 0, 1, 2, ... by default.
            sources: the inputs as text, for problems that finish outputs by them and for `replace_unknown`; read back
                from the ids by default.
            prefixes: ids that the output of each sentence begins with, without end of sequence.
            scored: whether scores and probabilities are read; without them an engine may be faster.
            on_done: called after each batch with the number of sentences in it.
            changes: see `translate`.
        """
        settings, hparams = self.settings(n_best, **changes)
        check_rows(sentences, "sentences")
        if len(sentences) == 0:
            return []
        if prefixes is not None:
            check_prefixes(self.facts, hparams, prefixes, len(sentences))
        rows = cut_rows(self.facts, sentences, hparams)
        seeds = np.arange(len(rows)) if places is None else np.asarray(places)
        results: list[list[Hypothesis]] = [[] for _ in rows]
        settings = dataclasses.replace(settings, scored=scored)
        texts: Sequence[str | None] = [None] * len(rows) if sources is None else sources
        for numbers, found in self.engine.decode(rows, seeds, settings, hparams, prefixes):
            outputs = [self.hypotheses(found, i, n_best, sentences[n], texts[n]) for i, n in enumerate(numbers)]
            if hparams.alignments or hparams.replace_unknown:
                read = [(rows[n], texts[n]) for n in numbers]
                outputs = self.aligner.annotate(read, outputs, hparams, self.unknown_dictionary)
            for number, hypotheses in zip(numbers, outputs, strict=True):
                results[number] = hypotheses
            if on_done is not None:
                on_done(len(numbers))
        return results

    def warm_up(self, sentences: Sequence[Row], n_best: int = 1) -> None:
        """Decodes the batches of ids (see `translate_ids`) that need most memory, as many as are decoded at a time."""
        settings, hparams = self.settings(n_best)
        rows = cut_rows(self.facts, sentences, hparams)
        self.engine.warm_up(rows, settings, hparams)

    def score(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        """Returns ln p(target | source), end of sequence included, of each (source, target) pair.

        Without inputs the sources are ignored. Sources are cut as in `translate`, targets are not.

        Raises:
            ArgumentError: something else than pairs of texts.
            UserError: see `score_ids`.
        """
        sources, targets = as_pairs(pairs)
        ids = self.encode(sources) if self.has_inputs else [()] * len(sources)
        return self.score_ids(ids, self.encode_targets(targets))

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
            targets: as many lists of ids.
            on_done: called after each batch with the number of pairs in it.

        Raises:
            UserError: a target is longer than `longest_input`: cut, it would have another probability; or targets are
                classes.
        """
        self._check_scores()
        check_row_pairs(sources, targets)
        if not len(targets):
            return []
        check_lengths(self.facts, targets, self.hparams)
        rows = cut_rows(self.facts, sources, self.hparams) if self.has_inputs else [()] * len(targets)
        scores = np.zeros(len(targets), np.float64)
        for numbers, found in self.engine.score(rows, [[*ids, EOS_ID] for ids in targets], self.hparams):
            scores[numbers] = found
            if on_done is not None:
                on_done(len(numbers))
        if not np.isfinite(scores).all():
            raise UserError(NOT_FINITE)
        return (scores + 0.0).tolist()  # no -0.0

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
        return self.align_ids(self.encode(sources), self.encode_targets(targets), **changes)

    def align_ids(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        on_done: Callable[[int], Any] | None = None,
        **changes,
    ) -> list[Links]:
        """Aligns ids (without end of sequence) instead of text; see `align` and `score_ids`.

        Raises:
            UserError: no layer attends to the inputs, or a target is longer than `longest_input`.
        """
        _, hparams = self.settings(alignments=True, **changes)
        check_row_pairs(sources, targets)
        check_lengths(self.facts, targets, self.hparams)
        rows = cut_rows(self.facts, sources, self.hparams)
        ended = [[*ids, EOS_ID] for ids in targets]
        found = self.aligner.links(rows, ended, str, hparams) if rows else []
        if on_done is not None:
            on_done(len(found))
        return found

    def attend(self, source: str, target: str | Sequence[int] | None = None, **changes) -> "Attention":
        """Returns the attention weights of an input and its output.

        Args:
            source: an input, cut as in `translate`; without inputs (a language model), the beginning of an output.
            target: the output, as text or as ids with end of sequence; None for the model's best.
            changes: see `translate`, for the model's best.

        Raises:
            UserError: the model has no attention, or a target that `score` refuses.
        """
        (ids,) = self.encode([source])
        if target is None:
            (best,) = self.translate_ids([ids], sources=[source], **changes)[0]
            text, written = best.text, best.ids
        elif isinstance(target, str):
            (own,) = self.encode_targets([target])
            check_lengths(self.facts, [own], self.hparams)
            text, written = target, (*own, EOS_ID)
        else:
            text, written = self.problem.decode_target(target), tuple(target)
            check_lengths(self.facts, [written[:-1]], self.hparams)
        (row,) = cut_rows(self.facts, [ids], self.hparams)
        model = self.model  # first, as in `tensorflow`
        from t2t.inference.attention import Attention, attention_maps

        return Attention(source, text, written, attention_maps(model, row, written, self.problem.encoders))

    def stream(
        self, lines: Iterable[str], n_best: int = 1, window: int = STREAM_WINDOW, **changes
    ) -> Iterator[list[Hypothesis]]:
        """Returns an iterator over the outputs of each line in order, which reads `window` lines at a time.

        Raises:
            UserError: as `translate`, before anything is read.
        """
        if isinstance(lines, str) or not isinstance(lines, Iterable):
            raise ArgumentError(
                f"lines={lines!r:.60}: it is of type {type(lines).__name__}; give texts to iterate over"
            )
        self.settings(n_best, **changes)
        return self._stream(iter(lines), n_best, window, changes)

    def _check_scores(self) -> None:
        if self.facts.spec.targets.kind == FeatureKind.LABEL:
            raise UserError(
                f"scoring outputs of {self.problem.name}: they are classes; decode with n_best instead, which "
                f"gives the probabilities of the likeliest (t2t-decoder: with --output_format=tsv)"
            )

    def _stream(self, lines: Iterator[str], n_best: int, window: int, changes: dict) -> Iterator[list[Hypothesis]]:
        start = 0
        while texts := list(itertools.islice(lines, window)):
            places = range(start, start + len(texts))
            yield from self.translate_ids(self.encode(texts), n_best, places=places, sources=texts, **changes)
            start += len(texts)

    def settings(self, n_best: int = 1, *, seed: int = 0, **changes) -> tuple[SearchSettings, DecodeHParams]:
        """Returns how a call with these arguments searches.

        Raises:
            UserError: see `translate`.
        """
        searches = self.facts.autoregressive or self.hparams.decode_method == MASK_PREDICT
        at_once = None if searches else max_answers(self.facts)
        settings, hparams = search_settings(self.hparams, n_best, seed, changes, at_once)
        if hparams.alignments or hparams.replace_unknown:
            self.aligner.check(hparams)
        return settings, hparams

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
            source = self.problem.encoders[INPUTS].decode(ids_in) if self.problem.finishes else ""
        is_class = self.facts.spec.targets.kind == FeatureKind.LABEL
        hypotheses = []
        for k in range(n_best):
            ids = tuple(found.ids[row, k, : found.lengths[row, k]].tolist())
            if ids:
                output = self.problem.decode_target(ids[0] if is_class else ids)
                finished = self.problem.finish(without_surrogates(source), output)
                score, log_prob = float(found.scores[row, k]), float(found.log_probs[row, k])
                hypotheses.append(Hypothesis(finished.text, ids, score, log_prob, finished.mended))
        if not hypotheses:
            raise UserError(NOT_FINITE)
        return hypotheses
