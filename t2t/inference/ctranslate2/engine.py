"""Decodes and scores with CTranslate2.

As in our own search, hypotheses of one length compete by log-probability, and each output has a limit. It stops by
other rules, and of the 2K candidates of a step only the best K may end an output; in ours any may. We rank the
hypotheses that it returns by the requested length penalty.

Legend: B sentences, K hypotheses of each, T longest output.
"""

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.files.processor import available_cores, instruction_sets
from t2t.hparams.groups import DecodeHParams
from t2t.inference.ctranslate2.conversion import TokenLists
from t2t.inference.engine import COMPUTE_TYPES, BatchHypotheses, DecodeRequest, Engine
from t2t.inference.rows import Row
from t2t.search.result import NO_HYPOTHESIS, PENALTIES, SearchResult
from t2t.search.settings import BEAM, GREEDY, SAMPLE, SearchSettings
from t2t.specs import EOS_ID, PAD_ID

BATCH_ROWS = 64
"""Maximum rows that are searched together; chosen by measurements of 8 to 128 rows on two cores."""

_AVX512 = {"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq"}
"""Instruction sets that CTranslate2's AVX-512 kernels use, by their names in Linux."""

_NO_WORDS = "an input is empty, of which it reads nothing with input_end=False"

_Found = tuple[list[str], float]
"""Tokens of a hypothesis and its log-probability; NaN if it is not requested."""


class CTranslate2Engine(Engine):
    """Decodes with CTranslate2, by greedy or beam search.

    Args:
        folder: a model as `t2t.inference.ctranslate2.conversion.write_model` writes it.
        tokens: names of the ids in the model.
        longest: number of positions of the model.
        most_tokens: maximum tokens of an output, whatever the length of its input; None for no maximum.
        compute_type: one of COMPUTE_TYPES.
        start: ids that each output begins with.
        patience: a beam search ends when this many times as many outputs have ended as its beam is wide; CTranslate2's
            own rule is 1, with which it misses some better outputs that end later.

    Raises:
        UserError: the processor does not support the compute type.
    """

    def __init__(
        self,
        folder: Path,
        tokens: TokenLists,
        longest: int,
        most_tokens: int | None = None,
        compute_type: str = "float32",
        start: Sequence[int] = (),
        patience: int = 1,
    ):
        import ctranslate2

        offered = ctranslate2.get_supported_compute_types("cpu")
        if compute_type not in offered:
            there_are = ", ".join(name for name in COMPUTE_TYPES if name in offered)
            raise UserError(
                f"on this processor there are {there_are}", "ask for one", option="compute_type", value=compute_type
            )
        self._tokens, self._longest, self._most_tokens = tokens, longest, most_tokens
        self._padding, self._end = tokens.target[PAD_ID], tokens.target[EOS_ID]
        self._start, self._patience = tuple(start), patience
        self.name = f"CTranslate2 {ctranslate2.__version__} in {compute_type}"
        if patience > 1:
            self.name += f", patience {patience}"
        _use_avx512()
        self._workers = available_cores()
        self._model = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=compute_type, inter_threads=self._workers, intra_threads=1
        )

    def refusal(self, request: DecodeRequest) -> str:
        """See the base class."""
        hparams, prefixes = request.hparams, request.prefixes
        if why := search_refusal(request.settings, hparams):
            return why
        if prefixes is not None and any(tuple(prefix) != self._start for prefix in prefixes):
            return "it has another log-probability of what goes on from a given beginning"
        if request.constraints is not None:
            return "it cannot keep outputs to constraints"
        if self._lacks_words(request.rows):
            return _NO_WORDS
        if max(self._limits(request.rows, hparams)) > self._longest:
            return f"extra_length={hparams.extra_length}: it was given {self._longest:,} positions"
        return ""

    def score_refusal(self, sources: Sequence[Row], targets: Sequence[Row]) -> str:
        """See the base class."""
        if self._lacks_words(sources):
            return _NO_WORDS
        longest = max(map(len, [*sources, *targets]))
        return f"{longest:,} ids: it was given {self._longest:,} positions" if longest > self._longest else ""

    def decode(self, request: DecodeRequest) -> Iterator[BatchHypotheses]:
        """See the base class; only for requests without a `refusal`."""
        rows, settings = request.rows, request.settings
        limits = self._limits(rows, request.hparams)
        batches = self._batches(rows, request.hparams.decode_batch_size // settings.rows_per_sentence)
        waiting = [(indices, self._search(indices, rows, limits, settings)) for indices in batches]
        while waiting:
            longer = []
            for indices, results in waiting:
                found = {}
                for index, result in zip(indices, results, strict=True):
                    hypotheses = _hypotheses(result, settings, limits[index])
                    if any(len(tokens) > limits[index] for tokens, _ in hypotheses):
                        # A batch has the limit of its longest row. Searched alone, this row has its own limit.
                        longer.append(([index], self._search([index], rows, limits, settings)))
                        continue
                    if any(self._padding in tokens for tokens, _ in hypotheses):  # of a model that is hardly trained
                        hypotheses = self._search_without_padding(index, rows, limits, settings)
                    found[index] = _ranked(hypotheses, settings)
                if found:
                    yield np.array(list(found)), self._result(list(found.values()), settings)
            waiting = longer

    def score_tokens(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """See the base class."""
        longer = [max(source, target, key=len) for source, target in zip(sources, targets, strict=True)]
        waiting = [
            (
                indices,
                self._model.score_batch(
                    [self._tokens.source_of(sources[n]) for n in indices],
                    [self._tokens.target_of(targets[n]) for n in indices],
                    max_input_length=0, max_batch_size=0, asynchronous=True,
                ),
            )
            for indices in self._batches(longer, hparams.decode_batch_size)
        ]  # fmt: skip
        for indices, results in waiting:
            found = [np.array(result.result().log_probs, np.float64) for result in results]
            # CTranslate2 also scores the end of sequence, which a target that was cut does not have.
            yield np.array(indices), [row_T[: len(targets[n])] for n, row_T in zip(indices, found, strict=True)]

    def warm_up(self, request: DecodeRequest) -> None:
        """See the base class."""
        order = np.argsort([-len(row) for row in request.rows], kind="stable")
        list(self.decode(request.of_rows(order[: self._workers * BATCH_ROWS])))

    def _lacks_words(self, rows: Sequence[Row]) -> bool:
        """Returns whether an input is empty and the model does not read its end of sequence."""
        return not self._tokens.input_end and min(map(len, rows)) == 1

    def _limits(self, rows: Sequence[Row], hparams: DecodeHParams) -> list[int]:
        wanted = [max(len(row) + hparams.extra_length, 1) for row in rows]
        return [min(limit, self._most_tokens or limit) for limit in wanted]

    def _batches(self, rows: Sequence[Row], most_ids: int) -> Iterator[list[int]]:
        """Yields the indices of rows to be searched together, the longest first; every worker gets some."""
        lengths = np.array(list(map(len, rows)))
        order = np.argsort(-lengths, kind="stable")
        most_rows = min(BATCH_ROWS, -(-len(order) // self._workers))
        while len(order):
            count = max(1, min(most_rows, most_ids // max(1, int(lengths[order[0]]))))
            yield order[:count].tolist()
            order = order[count:]

    def _search(
        self,
        indices: Sequence[int],
        rows: Sequence[Row],
        limits: Sequence[int],
        settings: SearchSettings,
        suppressed: str = "",
    ) -> list[Any]:
        """Starts `translate_batch`; returns its futures. A token may be suppressed."""
        beam = settings.beam_size if settings.uses_beam_search else 1
        # Without a length penalty, a finished output that is the best so far cannot be beaten.
        one_suffices = beam == 1 or (settings.only_best and not settings.alpha)
        patience = 1 if one_suffices else self._patience
        return self._model.translate_batch(
            [self._tokens.source_of(rows[n]) for n in indices],
            beam_size=beam,
            num_hypotheses=1 if one_suffices else beam * patience,
            patience=patience,
            length_penalty=settings.alpha if beam > 1 else 0,
            max_decoding_length=max(limits[n] for n in indices),
            min_decoding_length=0, max_input_length=0, max_batch_size=0,
            suppress_sequences=[[suppressed]] if suppressed else None,
            target_prefix=[[self._tokens.target[token_id] for token_id in self._start]] * len(indices)
            if self._start
            else None,
            return_end_token=True, return_scores=settings.scored or beam > 1, asynchronous=True,
        )  # fmt: skip

    def _search_without_padding(
        self, index: int, rows: Sequence[Row], limits: Sequence[int], settings: SearchSettings
    ) -> list[_Found]:
        """Returns the hypotheses of a row without padding; log-probabilities are among all tokens, padding included."""
        (result,) = self._search([index], rows, limits, settings, self._padding)
        hypotheses = [tokens for tokens, _ in _hypotheses(result, settings, limits[index])]
        targets = [tokens[:-1] if tokens[-1] == self._end else tokens for tokens in hypotheses]
        source = self._tokens.source_of(rows[index])
        scored = self._model.score_batch([source] * len(targets), targets, max_input_length=0)
        return [
            (tokens, float(sum(one.log_probs[len(self._start) : len(tokens)])))
            for tokens, one in zip(hypotheses, scored, strict=True)
        ]

    def _result(self, found: Sequence[Sequence[_Found]], settings: SearchSettings) -> SearchResult:
        """Returns the hypotheses of a batch as arrays; one whose probability is not finite does not exist."""
        penalty = PENALTIES[settings.penalty](settings.alpha)
        most = 1 if settings.only_best else settings.rows_per_sentence
        widest = max((len(tokens) for each in found for tokens, _ in each), default=0)
        ids_BKT = np.zeros((len(found), most, widest), np.int32)
        lengths_BK = np.zeros((len(found), most), np.int32)
        log_probs_BK = np.full((len(found), most), NO_HYPOTHESIS, np.float32)
        for b, each in enumerate(found):
            for k, (tokens, log_prob) in enumerate(each):
                if math.isfinite(log_prob) or not settings.scored:
                    ids_BKT[b, k, : len(tokens)] = self._tokens.ids_of(tokens)
                    lengths_BK[b, k], log_probs_BK[b, k] = len(tokens), log_prob
        scores_BK = log_probs_BK / penalty(np.maximum(lengths_BK, 1).astype(np.float32))
        return SearchResult(ids_BKT, scores_BK, log_probs_BK, lengths_BK)


def search_refusal(settings: SearchSettings, hparams: DecodeHParams) -> str:
    """Returns why CTranslate2 cannot search as the settings say, whatever the inputs; an empty text if it can."""
    if settings.method == SAMPLE:
        return "it draws random numbers of its own, so that a seed would not name a sample"
    if settings.method not in (BEAM, GREEDY):
        return f"it has no search method {settings.method}"
    if settings.counts_coverage:
        return "it has another coverage penalty"
    if settings.constrains_output:
        return "it gives the probability of what may not be written to other ids"
    if hparams.shortlist:
        return "its shortlists are those of a batch, so that an output would depend on what else is in it"
    return ""


def _hypotheses(result: Any, settings: SearchSettings, limit: int) -> list[_Found]:
    """Waits for the hypotheses of a sentence; those without a probability are cut at its limit."""
    found = result.result()
    if not found.scores:  # of greedy search, whose tokens do not depend on a limit
        return [(tokens[:limit], math.nan) for tokens in found.hypotheses]
    divided_by = settings.alpha if settings.uses_beam_search else 0
    return [
        (tokens, score * len(tokens) ** divided_by)
        for tokens, score in zip(found.hypotheses, found.scores, strict=True)
    ]


def _ranked(hypotheses: list[_Found], settings: SearchSettings) -> list[_Found]:
    """Returns the requested hypotheses of a sentence, best first."""
    if len(hypotheses) == 1:
        return hypotheses
    penalty = PENALTIES[settings.penalty](settings.alpha)
    best = sorted(hypotheses, key=lambda one: one[1] / penalty(float(len(one[0]))), reverse=True)
    return best[: 1 if settings.only_best else settings.rows_per_sentence]


def _use_avx512() -> None:
    """Makes CTranslate2 use AVX-512 if the processor has it; by default it does so on Intel's processors alone.

    CTranslate2 reads the variable once per process, when it first computes. A value set by the user is kept.
    """
    if instruction_sets() >= _AVX512:
        os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")
