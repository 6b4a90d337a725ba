"""A model with its vocabularies: what it reads and writes, and the engines that compute with it."""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

import t2t
from t2t.errors import UserError
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.engine import Engine
from t2t.inference.model_facts import LazyModel, ModelFacts, max_answers
from t2t.inference.rows import Row, cut_rows, describe_max_ids, max_sequence_ids, reads_ids
from t2t.inference.settings import search_settings
from t2t.inference.shortlist.shortlist import Shortlist
from t2t.inference.texts import as_texts
from t2t.problems.base import Problem, feature_of
from t2t.search.settings import SearchSettings
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import FeatureKind
from t2t.text.words import single_spaced

if TYPE_CHECKING:
    from t2t.inference.alignment import WordAligner
    from t2t.inference.model_engine import ModelEngine
    from t2t.inference.parallel import Sharing
    from t2t.models.base import SequenceModel


class TextModel:
    """A model with its vocabularies; a model that predicts in one pass ignores the search hparams.

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
                f"decoding {problem.name} with {type(model).__name__}: the model answers inputs at once, and there are "
                f"none; evaluate it with t2t-eval"
            )
        self.problem, self.hparams = problem, hparams
        self.facts: ModelFacts = model
        """What is known about the model without building it."""
        self.has_inputs = model.spec.inputs is not None
        self._model, self._sharing = model, sharing
        if engine is not None:
            self.engine = engine

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
        model = self.model  # first, as in `model_engine`
        from t2t.inference.alignment import WordAligner

        return WordAligner(model, self.problem)

    @property
    def is_built(self) -> bool:
        """Whether the model was given built; otherwise it is built only for what another engine cannot do."""
        return not isinstance(self._model, LazyModel)

    @property
    def reads_text(self) -> bool:
        """Whether it reads text: as inputs, or as prefixes of outputs."""
        return reads_ids(self.facts)

    @property
    def rewrites_text(self) -> bool:
        """Whether the text of an output may differ from its decoded ids."""
        problem = self.problem
        return problem.finishes or bool(feature_of(problem, TARGETS).continuation_mark) or self.hparams.replace_unknown

    @property
    def longest_input(self) -> int:
        """Maximum ids of an input, without end of sequence and the language code behind it; longer ones are cut."""
        return self.longest_target - len(self.problem.languages.marks().input_end)

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
        model = self.facts.hparams.to_dict()["model"]
        besides = getattr(self._model, "average", getattr(self._model, "adapter_scale", ""))  # not seen in weights
        made_by = f"{t2t.__version__} {self.engine.name} {self.problem.name} {model} {besides}"
        digest = hashlib.sha256(made_by.encode())
        for name, encoder in sorted(self.problem.encoders.items()):
            digest.update(f"\0{name} {encoder.fingerprint}".encode())
        if any(marks := self.problem.languages.marks()):
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
        if self.has_inputs and feature_of(self.problem, INPUTS).single_spaces:
            texts = [single_spaced(text) for text in texts]
        if not self.reads_text:
            kind = self.facts.spec.inputs.kind if self.facts.spec.inputs else "absent"
            raise UserError(
                f"inputs of {self.problem.name} are {kind}, not text; give a file of their paths to t2t-decoder "
                f"--decode_from_file, or arrays to translate_ids"
            )
        rows = self.problem.encoders[INPUTS if self.has_inputs else TARGETS].encode_batch(texts)
        start = self.problem.languages.marks().input_start
        return [[*start, *row] for row in rows] if start else rows

    def input_rows(self, sentences: Sequence[Row], hparams: DecodeHParams | None = None) -> list[Row]:
        """Returns inputs (ids as from `encode`, or arrays) as the model reads them, see `cut_rows`."""
        return cut_rows(self.facts, sentences, hparams or self.hparams, self.problem.languages.marks().input_end)

    def is_blank(self, text: str) -> bool:
        """Returns whether an input has nothing to translate: its output is empty, and the model is not run."""
        return self.has_inputs and not text.replace("\0", "").strip()

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
                f"token_scores: {self.problem.name} with this model writes no outputs token by token for its inputs; "
                f"leave it out"
            )
        if hparams.shortlist:
            raise UserError(
                "token_scores with shortlist: the search knows a part of the vocabulary, and scores of tokens are "
                "among all of it; leave one of them out"
            )
