"""Decoding, scoring and aligning with a model and its vocabularies: texts in, hypotheses out.

A text becomes a translation floor by floor, and comes back the same way: `translate` takes it; `encode` makes it ids;
`request` checks them and makes a `DecodeRequest`, without blank inputs; an engine (`t2t.inference.engine`) searches in
batches; `t2t.search` chooses token by token. `read_hypotheses` makes texts of the ids found.

The methods whose names end in `_ids` take and return ids instead of texts.
"""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import t2t
from t2t.errors import ArgumentError, UnknownArgumentError, UserError
from t2t.files.pharaoh import Links
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.alignment import WordAligner
from t2t.inference.engine import DecodeRequest, Engine, Prefixes
from t2t.inference.hypothesis import Hypothesis, Tokens, blank_output, read_hypotheses
from t2t.inference.output_constraints import OutputTerms, constrains_outputs, constraints_of, read_all_terms
from t2t.inference.rows import (
    NOT_FINITE,
    LazyModel,
    ModelFacts,
    Row,
    as_pairs,
    as_texts,
    check_ids,
    check_inputs,
    check_lengths,
    check_prefix,
    check_rows,
    check_takes_prefixes,
    cut_rows,
    describe_max_ids,
    max_answers,
    max_sequence_ids,
    positions_in,
    reads_ids,
)
from t2t.inference.shortlist import Shortlist
from t2t.problems.base import Problem, feature_of
from t2t.search.settings import SearchSettings, check_whole_number, search_settings
from t2t.specs import EOS_ID, INPUTS, TARGETS
from t2t.specs.features import FeatureKind
from t2t.text.encoder import LanguageMarks
from t2t.text.words import single_spaced

if TYPE_CHECKING:
    from t2t.inference.attention import Attention
    from t2t.inference.model_engine import ModelEngine
    from t2t.inference.parallel import Sharing
    from t2t.models.base import SequenceModel

STREAM_WINDOW = 4096
"""Lines that `stream` sorts by length together."""


class Translator:
    """A model with its vocabularies, ready to decode, to score given outputs and to align their words.

    A model that predicts in one pass ignores the search hparams.

    Args:
        problem: with its encoders; turns text into ids and back.
        model: with its weights; a `LazyModel` is built when something needs it.
        hparams: the default search; any call may change it.
        sharing: workers that decode and score together, each with the same model; all of them make the same calls.
        engine: decodes and scores; by default the model itself, which always does what an engine does not.

    Raises:
        UserError: the model is not autoregressive and has no inputs.
    """

    read_shortlist: Callable[[], Shortlist] | None = None
    """Reads the shortlist of the run; None if the model does not come from a run."""
    unknown_dictionary: Mapping[str, str] = {}
    """Word of inputs -> its translation, for `replace_unknown`; other words are copied."""
    adapters: "Mapping[str, Self]" = {}
    """Models with adapters in place of some weights, which share all others; by the names given to `t2t.load`."""

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
                f"decoding {problem.name} with {type(model).__name__}: the model answers inputs at once, and there "
                "are none",
                "evaluate it with t2t-eval",
            )
        self.problem, self.hparams = problem, hparams
        self.facts: ModelFacts = model
        """What is known about the model without building it."""
        self.has_inputs = model.spec.inputs is not None
        self.reads_text = reads_ids(model)
        """Whether it reads text: as inputs, or as prefixes of outputs."""
        self._model, self._sharing = model, sharing
        if engine is not None:
            self.engine = engine

    # === The model and the engine that runs it ===

    @property
    def model(self) -> "SequenceModel":
        """The model; built now if it is not yet."""
        return self._model.build() if isinstance(self._model, LazyModel) else self._model

    @functools.cached_property
    def model_engine(self) -> "ModelEngine":
        """Decodes and scores with the model itself."""
        model = self.model  # before the engine is imported, as building imports Keras quietly
        from t2t.inference.model_engine import ModelEngine

        engine = ModelEngine(model, self._sharing)
        engine.read_shortlist = self.read_shortlist
        return engine

    @functools.cached_property
    def engine(self) -> Engine:
        """Decodes and scores; the model itself, unless another engine is given."""
        return self.model_engine

    @functools.cached_property
    def aligner(self) -> "WordAligner":
        """Aligns outputs with their inputs, by the model itself even if another engine decodes; see `WordAligner`."""
        return WordAligner(self.model, self.problem)

    @property
    def is_built(self) -> bool:
        """Whether the model was given built; otherwise it is built only for what another engine cannot do."""
        return not isinstance(self._model, LazyModel)

    @functools.cached_property
    def _marks(self) -> LanguageMarks:
        """The ids that stand for languages in inputs and outputs."""
        return self.problem.languages.marks()

    @property
    def rewrites_text(self) -> bool:
        """Whether the text of an output may differ from its decoded ids."""
        problem = self.problem
        return problem.finishes or bool(feature_of(problem, TARGETS).continuation_mark) or self.hparams.replace_unknown

    @property
    def longest_input(self) -> int:
        """Maximum ids of an input, without end of sequence and the language code behind it; longer ones are cut."""
        return self.longest_target - len(self._marks.input_end)

    @property
    def longest_target(self) -> int:
        """Maximum ids of a given output, without end of sequence; longer ones are refused."""
        return max_sequence_ids(self.facts, self.hparams) - 1

    @property
    def most_ids(self) -> str:
        """Maximum ids of an input or output, all included, and the setting it comes from, for a message."""
        return describe_max_ids(self.facts, self.hparams)

    def fingerprint(self) -> str:
        """Returns a sha256 of what decides its outputs: weights, vocabularies, problem, engine, version of t2t."""
        hparams = self.facts.hparams
        # Without defaults, so that a hparam that a later version adds changes nothing.
        changed, values = hparams.difference(type(hparams)()), hparams.to_dict()["model"]
        model = type(hparams).__name__, {name: values[name] for name in values if name in changed}
        besides = getattr(self._model, "average", getattr(self._model, "adapter_scale", ""))  # not seen in weights
        made_by = f"{t2t.__version__} {self.engine.name} {self.problem.name} {model} {besides}"
        digest = hashlib.sha256(made_by.encode())
        for name, encoder in sorted(self.problem.encoders.items()):
            digest.update(f"\0{name} {encoder.fingerprint}".encode())
        if any(self._marks):
            digest.update(f"\0marks {[list(ids) for ids in self._marks]}".encode())
        if self.hparams.shortlist:
            digest.update(f"\0shortlist {self.model_engine.shortlist.fingerprint}".encode())
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

    # === Texts to ids ===

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of inputs (of beginnings of outputs, for a language model), without end of sequence.

        They begin with a language's tag or code where the problem has one there.
        """
        return self._encode(as_texts(texts))

    def _encode(self, texts: list[str]) -> list[list[int]]:
        """Does as `encode`, for texts from `as_texts`."""
        if self.has_inputs and feature_of(self.problem, INPUTS).single_spaces:
            texts = [single_spaced(text) for text in texts]
        if not self.reads_text:
            kind = self.facts.spec.inputs.kind if self.facts.spec.inputs else "absent"
            raise UserError(
                f"inputs of {self.problem.name} are {kind}, not text",
                "give a file of their paths to t2t-decoder --decode_from_file, or arrays to translate_ids",
            )
        rows = self.problem.encoders[INPUTS if self.has_inputs else TARGETS].encode_batch(texts)
        start = self._marks.input_start
        return [[*start, *row] for row in rows] if start else rows

    def encode_prefixes(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of prefixes of outputs; raises UserError if the model does not support them."""
        check_takes_prefixes(self.facts)
        read = [self.problem.read_target(text) for text in as_texts(texts, "prefixes")]
        return self.problem.encoders[TARGETS].encode_batch(read)

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
        rows, start = self.problem.encoders[TARGETS].encode_batch(read), self._marks.output_start
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
                raise error.at(name_of(index)) from None
        return read

    def input_rows(self, sentences: Sequence[Row], hparams: DecodeHParams | None = None) -> list[Row]:
        """Returns inputs (ids as from `encode`, or arrays) as the model reads them, see `cut_rows`."""
        return cut_rows(self.facts, sentences, hparams or self.hparams, self._marks.input_end)

    def is_blank(self, text: str) -> bool:
        """Returns whether an input has nothing to translate: its output is empty, and the model is not run."""
        return self.has_inputs and not text.replace("\0", "").strip()

    def forced(self, prefixes: Prefixes | None, count: int) -> Prefixes | None:
        """Returns the ids that `count` outputs begin with: the problem's language code, if any, and the prefixes.

        No code is added for models that are not autoregressive.
        """
        start = self._marks.output_start
        if not start or not self.facts.autoregressive:
            return prefixes
        return [[*start, *prefix] for prefix in ([()] * count if prefixes is None else prefixes)]

    # === Decoding ===

    def settings(self, n_best: int = 1, *, seed: int = 0, **changes) -> tuple[SearchSettings, DecodeHParams]:
        """Returns the search settings and decode hparams of a call with these arguments.

        Raises:
            UserError: see `translate`.
        """
        searches = self.facts.autoregressive or self.hparams.decode_method == MASK_PREDICT
        at_once = None if searches else max_answers(self.facts)
        settings, hparams = search_settings(self.hparams, n_best, seed, changes, at_once)
        if hparams.token_scores:
            self._check_token_scores(hparams)
        if hparams.alignments or hparams.replace_unknown:
            self.aligner.check(hparams)
        return settings, hparams

    def _check_token_scores(self, hparams: DecodeHParams) -> None:
        """Raises UserError where outputs have no tokens that are scored one by one."""
        if self.facts.spec.targets.kind != FeatureKind.TOKENS or not self.facts.autoregressive or not self.has_inputs:
            raise UserError(
                f"token_scores: {self.problem.name} with this model writes no outputs token by token for its inputs",
                "leave it out",
            )
        if hparams.shortlist:
            raise UserError(
                "token_scores with shortlist: the search knows a part of the vocabulary, and scores of tokens are "
                "among all of it",
                "leave one of them out",
            )

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
            self._encode(texts), n_best, sources=texts, prefixes=given, constraints=constraints, **changes
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
            outputs = [
                read_hypotheses(self.problem, self.facts, found, i, n_best, sentences[n], texts[n])
                for i, n in enumerate(numbers)
            ]
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
        row_settings: Sequence[SearchSettings] | None = None,
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
            row_settings: search settings of each sentence, of which temperature, top_k, top_p and seed count, where
                those of the call have the same `structure`; None for those of the call.
            changes: see `translate`.

        Raises:
            ArgumentError: as `translate`, or fewer or more seeds or prefixes than sentences.
            UserError: as `translate`, or ids that the vocabulary of the inputs lacks, or padding.
        """
        settings, hparams = self.settings(n_best, **changes)
        check_rows(sentences, "sentences")
        check_inputs(self.facts, sentences, "sentences")
        for name, given in (("seeds", seeds), ("prefixes", prefixes), ("row_settings", row_settings)):
            if given is not None and len(given) != len(sentences):
                raise ArgumentError(f"{len(given)} {name} for {len(sentences)} inputs", "give one for each")
        if prefixes is not None:
            check_takes_prefixes(self.facts)
            for prefix in prefixes:
                check_prefix(self.facts, hparams, prefix)
        terms = None if constraints is None else read_all_terms(constraints, len(sentences))
        numbers = np.arange(len(sentences)) if seeds is None else np.asarray(seeds)
        asked = self._not_blank(sentences, sources)
        if len(asked) < len(sentences):
            sentences = [sentences[n] for n in asked]
            sources, prefixes, terms = (_some(values, asked) for values in (sources, prefixes, terms))
            row_settings = _some(row_settings, asked)
        prefixes = self.forced(prefixes, len(asked))
        return DecodeRequest(
            rows=self.input_rows(sentences, hparams),
            seeds=numbers[asked],
            settings=dataclasses.replace(settings, scored=scored),
            row_settings=row_settings,
            hparams=hparams,
            prefixes=prefixes,
            code_length=len(self._marks.output_start),
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
                    f"input {request.sentences[place] + 1} has {size_of(row)} ids, and with "
                    f"extra_length={request.hparams.extra_length} its longest output has {longest}, end of sequence "
                    "included",
                    "make min_output_length smaller or extra_length larger",
                    hparam="min_output_length",
                    value=shortest - 1,
                )

    def _not_blank(self, sentences: Sequence[Row], sources: Sequence[str] | None) -> np.ndarray:
        """Returns the indices of the inputs that are not blank, see `is_blank`; `sources` as in `request`."""
        if not self.has_inputs or not self.reads_text or INPUTS not in self.problem.encoders:
            return np.arange(len(sentences))
        if sources is None:
            start, decode = self._marks.input_start, self.problem.encoders[INPUTS].decode
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

    def warm_up(self, sentences: Sequence[Row], n_best: int = 1) -> None:
        """Decodes the largest batches of ids (see `translate_ids`), as many as are decoded in parallel."""
        request = self.request(sentences, n_best)
        if len(request.rows):
            self.engine.warm_up(request)

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
                f"it is of type {type(lines).__name__}",
                "give texts to iterate over",
                option="lines",
                value=lines,
            )
        check_whole_number("window", window)
        if window < 1:
            raise ArgumentError("it is a number of lines", "give at least 1", option="window", value=window)
        for name in ("prefixes", "constraints"):
            if name in changes:
                raise UnknownArgumentError(f"stream takes no {name}", "give them, and a list of texts, to translate")
        self.settings(n_best, **changes)
        return self._stream(iter(lines), n_best, window, changes)

    def _stream(self, lines: Iterator[str], n_best: int, window: int, changes: dict) -> Iterator[list[Hypothesis]]:
        start = 0
        while texts := list(itertools.islice(lines, window)):
            seeds = range(start, start + len(texts))
            yield from self.translate_ids(self.encode(texts), n_best, seeds=seeds, sources=texts, **changes)
            start += len(texts)

    # === Given outputs: their scores, word alignments and attention ===

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
        rows, ended = self._checked_pairs(sources, targets)
        scores = np.zeros(len(targets), np.float64)
        for indices, found in self.engine.score(rows, ended, self.hparams) if rows else ():
            scores[indices] = found
            if on_done is not None:
                on_done(len(indices))
        if not np.isfinite(scores).all():
            raise UserError(*NOT_FINITE)
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
        return self._token_scores(*self._checked_pairs(sources, targets), self.hparams, on_done)

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
        encoder, begun = self.problem.encoders[TARGETS], len(self._marks.output_start)
        scored: list[Tokens] = [()] * len(targets)
        for indices, found in self.engine.score_tokens(rows, targets, hparams) if len(targets) else ():
            for index, log_probs in zip(indices, found, strict=True):
                values = [0.0] * begun + [float(value) + 0.0 for value in log_probs[begun:]]
                scored[index] = tuple(zip(map(encoder.piece, targets[index]), values, strict=True))
            if on_done is not None:
                on_done(len(indices))
        return scored

    def _with_token_scores(
        self, rows: Sequence[Row], outputs: Sequence[Sequence[Hypothesis]], hparams: DecodeHParams
    ) -> list[list[Hypothesis]]:
        """Returns the outputs of each row with the log-probabilities of their tokens, by another pass over them."""
        repeated = [row for row, hypotheses in zip(rows, outputs, strict=True) for _ in hypotheses]
        targets = [one.ids for hypotheses in outputs for one in hypotheses]
        tokens = iter(self._token_scores(repeated, targets, hparams))
        return [[dataclasses.replace(one, tokens=next(tokens)) for one in hypotheses] for hypotheses in outputs]

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
        rows, ended = self._checked_pairs(sources, targets)
        first, second = zip(*texts, strict=True) if texts else (None, None)
        found = self.aligner.links(rows, ended, hparams, sources=first, targets=second) if rows else []
        if on_done is not None:
            on_done(len(found))
        return found

    def _checked_pairs(
        self, sources: Sequence[Row], targets: Sequence[Sequence[int]]
    ) -> tuple[list[Row], list[Sequence[int]]]:
        """Returns the inputs as the model reads them, and the targets with end of sequence; raises as `score_ids`."""
        check_rows(sources, "sources")
        check_rows(targets, "targets")
        if len(sources) != len(targets):
            raise ArgumentError(f"{len(sources)} sources and {len(targets)} targets", "give as many of both")
        if self.has_inputs:
            check_inputs(self.facts, sources, "sources")
        if self.facts.spec.targets.kind == FeatureKind.TOKENS:
            for number, ids in enumerate(targets):
                check_ids(self.facts, ids, f"targets[{number}]: an output")
        check_lengths(self.facts, targets, self.hparams)
        rows: list[Row] = self.input_rows(sources) if self.has_inputs else [()] * len(targets)
        return rows, [[*ids, EOS_ID] for ids in targets]

    def _check_scores(self) -> None:
        if self.facts.spec.targets.kind == FeatureKind.LABEL:
            raise UserError(
                f"scoring outputs of {self.problem.name}: they are classes",
                "decode with n_best instead, which gives the probabilities of the likeliest (t2t-decoder: with "
                "--output_format=tsv)",
            )

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
        if target is None:
            if self.is_blank(source):
                raise UserError(
                    f"{source!r:.60}: a blank input has an empty output, which attends to nothing", "give a text"
                )
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


def _some(values: Sequence[Any] | None, indices: Sequence[int] | np.ndarray) -> Any:
    return None if values is None else [values[index] for index in indices]
