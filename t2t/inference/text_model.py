"""A model with its vocabularies: what it reads and writes, and the engines that compute with it."""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

import t2t
from t2t.decoding.settings import SearchSettings
from t2t.errors import UserError
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.engine import Engine
from t2t.inference.model_facts import LazyModel, ModelFacts, max_answers
from t2t.inference.rows import Row, cut_rows, describe_max_ids, max_sequence_ids, reads_ids
from t2t.inference.settings import search_settings
from t2t.inference.shortlist.shortlist import Shortlist
from t2t.inference.texts import as_texts
from t2t.problems.base import Problem
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import FeatureKind

if TYPE_CHECKING:
    from t2t.inference.alignment import WordAligner
    from t2t.inference.model_engine import ModelEngine
    from t2t.inference.parallel import Sharing
    from t2t.models.base import SequenceModel


class TextModel:
    """A model with its vocabularies; for a model that answers at once, search hparams do not count.

    Args:
        problem: with its encoders; turns text into ids and back.
        model: with its weights; one that is not built yet is built when something needs it.
        hparams: how to search by default; any call may ask otherwise.
        sharing: workers that decode and score together, each with the same model; all of them make the same calls.
        engine: what decodes and scores; default: the model itself, which does what an engine does not in any case.

    Raises:
        UserError: the model answers at once, and there are no inputs to answer.
    """

    read_shortlist: Callable[[], Shortlist] | None = None
    """Reads the shortlist of the run, where the model is of one."""
    unknown_dictionary: Mapping[str, str] = {}
    """Translations of words of inputs, for `replace_unknown`; a word without one is copied."""
    adapters: "Mapping[str, Self]" = {}
    """What answers with adapters in place of some weights, and shares all others, by the names given to `t2t.load`."""

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
    def model_engine(self) -> "ModelEngine":
        """Decodes and scores with the model itself."""
        model = self.model  # before its engine is imported: who builds a model may want that to be quiet
        from t2t.inference.model_engine import ModelEngine

        engine = ModelEngine(model, self._sharing)
        engine.read_shortlist = self.read_shortlist
        return engine

    @functools.cached_property
    def engine(self) -> Engine:
        """What decodes and scores: the model itself, unless another engine is given."""
        return self.model_engine

    @functools.cached_property
    def aligner(self) -> "WordAligner":
        """Aligns outputs with their inputs, by the model itself whatever decodes; raises as `WordAligner`."""
        model = self.model  # first, as in `model_engine`
        from t2t.inference.alignment import WordAligner

        return WordAligner(model, self.problem)

    @property
    def is_built(self) -> bool:
        """Whether the model was there from the start; otherwise another engine decodes as long as it can."""
        return not isinstance(self._model, LazyModel)

    @property
    def reads_text(self) -> bool:
        """Whether it continues texts: inputs, or beginnings of outputs."""
        return reads_ids(self.facts)

    @property
    def rewrites_text(self) -> bool:
        """Whether texts of outputs are something else than what the vocabulary reads from their ids."""
        problem = self.problem
        return problem.finishes or bool(problem.continuation_mark) or self.hparams.replace_unknown

    @property
    def longest_input(self) -> int:
        """Most ids of an input, without its end; longer ones are cut. Targets to score have about the same limit."""
        return max_sequence_ids(self.facts, self.hparams) - 1 - len(self.problem.language_marks().input_end)

    @property
    def most_ids(self) -> str:
        """How many ids that is with end of sequence, and what has set it, for a message."""
        return describe_max_ids(self.facts, self.hparams)

    def fingerprint(self) -> str:
        """Returns a sha256 of what decides its outputs: weights, vocabularies, problem, engine, version of t2t."""
        model = self.facts.hparams.to_dict()["model"]
        besides = getattr(self._model, "average", getattr(self._model, "adapter_scale", ""))  # what no weight tells
        made_by = f"{t2t.__version__} {self.engine.name} {self.problem.name} {model} {besides}"
        digest = hashlib.sha256(made_by.encode())
        for name, encoder in sorted(self.problem.encoders.items()):
            digest.update(f"\0{name} {encoder.fingerprint}".encode())
        if any(marks := self.problem.language_marks()):
            digest.update(f"\0marks {[list(ids) for ids in marks]}".encode())
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

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of inputs (of beginnings of outputs, for a language model), without end of sequence.

        They begin with a language's tag or code where the problem has one there.
        """
        texts = as_texts(texts)
        if not self.reads_text:
            kind = self.facts.spec.inputs.kind if self.facts.spec.inputs else "absent"
            raise UserError(f"inputs of {self.problem.name} are {kind}, not text; give arrays of them to translate_ids")
        rows = self.problem.encoders[INPUTS if self.has_inputs else TARGETS].encode_batch(texts)
        start = self.problem.language_marks().input_start
        return [[*start, *row] for row in rows] if start else rows

    def input_rows(self, sentences: Sequence[Row], hparams: DecodeHParams | None = None) -> list[Row]:
        """Returns inputs, ids as `encode` gives them or arrays, as the model reads them: cut, ended, with a warning."""
        return cut_rows(self.facts, sentences, hparams or self.hparams, self.problem.language_marks().input_end)

    def is_blank(self, text: str) -> bool:
        """Returns whether an input has nothing to translate: its output is empty, without asking the model."""
        return self.has_inputs and not text.strip()

    def settings(self, n_best: int = 1, *, seed: int = 0, **changes) -> tuple[SearchSettings, DecodeHParams]:
        """Returns how a call with these arguments searches.

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
                f"token_scores: {self.problem.name} with this model writes no outputs token by token for its inputs; "
                f"leave it out"
            )
        if hparams.shortlist:
            raise UserError(
                "token_scores with shortlist: the search knows a part of the vocabulary, and scores of tokens are "
                "among all of it; leave one of them out"
            )
