"""Decodes and scores with the model itself, on all of its devices.

Legend: B rows of a batch, T target length.
"""

import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np

from t2t.backends import backend
from t2t.backends.base import CompiledFunction, inputs_signature
from t2t.errors import UserError
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.batch_search import BatchSearch, SearchRows
from t2t.inference.engine import MOST_SEARCHES, BatchHypotheses, DecodeRequest, Engine
from t2t.inference.non_autoregressive import BatchAnswer, BatchMaskPredict
from t2t.inference.parallel import Jobs, Sharing, batch_share, queues_of
from t2t.inference.rows import Batched, Row, batches_of, memory_errors, padded, positions_in, row_sizes
from t2t.inference.shortlist import Shortlist
from t2t.models.base import SequenceModel
from t2t.search.settings import SearchSettings
from t2t.specs import INPUTS, TARGETS

AnyBatchSearch = BatchSearch | BatchMaskPredict | BatchAnswer


def build_batch_search(
    model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
) -> BatchSearch:
    """Returns the search of batches that suits how the backend compiles, see `BatchSearch`."""
    if backend().always_compiles:
        from t2t.inference.padded_search import PaddedSearch

        return PaddedSearch(model, settings, extra_length, shortlist)
    from t2t.inference.growing_search import GrowingSearch

    return GrowingSearch(model, settings, extra_length, shortlist)


def build_search(
    model: SequenceModel, settings: SearchSettings, extra_length: int, shortlist: Shortlist | None = None
) -> AnyBatchSearch:
    """Returns the search for a model: token by token, by mask-predict, or in one forward pass; see `BatchSearch`."""
    if model.autoregressive:
        return build_batch_search(model, settings, extra_length, shortlist)
    if settings.method == MASK_PREDICT:
        return BatchMaskPredict(model, settings, extra_length)
    return BatchAnswer(model, settings.rows_per_sentence)


class ModelEngine(Engine):
    """Runs every kind of search with every model, on Keras's backend.

    Args:
        model: its current weights are read at each call.
        sharing: workers that decode and score together, each with the same model; all of them make the same calls.
    """

    read_shortlist: Callable[[], Shortlist] | None = None
    """Reads the shortlist of the run; None if the model does not come from a run."""

    def __init__(self, model: SequenceModel, sharing: Sharing | None = None):
        self.name = backend().name
        self._model = model
        self._searches: OrderedDict[tuple[SearchSettings, bool], AnyBatchSearch] = OrderedDict()
        self._lock, self._building = threading.Lock(), threading.Lock()
        self._jobs = Jobs(model, sharing)

    @property
    def devices(self) -> list[str]:
        """Names of the devices with a copy of the weights, see `t2t.backends.base.Backend.use_device`."""
        return self._jobs.devices

    def decode(self, request: DecodeRequest) -> Iterator[BatchHypotheses]:
        """See the base class."""
        return self._decode(request)

    def warm_up(self, request: DecodeRequest) -> None:
        """See the base class."""
        list(self._decode(request, is_warm_up=True))

    def score_tokens(
        self, sources: Sequence[Row], targets: Sequence[Row], hparams: DecodeHParams
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """See the base class."""
        has_inputs = self._model.spec.inputs is not None
        # Only lengths cut the batches: an array of inputs and the ids of a target cannot be padded together.
        rows = [range(max(map(len, pair))) for pair in zip(sources, targets, strict=True)]
        log_probs = self._log_probs

        def score(batch: Batched) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
            indices, _ = batch
            features = {TARGETS: padded([targets[i] for i in indices])}
            if has_inputs:
                features[INPUTS] = padded([sources[i] for i in indices])
            with memory_errors(features[TARGETS], 1):
                log_probs_BT = keras.ops.convert_to_numpy(log_probs(features))
            yield indices, [row_T[: len(targets[i])] for i, row_T in zip(indices, log_probs_BT, strict=True)]

        yield from self._jobs.run(score, batches_of(rows, row_sizes(rows), hparams.decode_batch_size))

    @functools.cached_property
    def _log_probs(self) -> CompiledFunction:
        """Returns the log-probabilities of the tokens of targets, given their inputs if the model has any."""
        signature = {TARGETS: keras.KerasTensor([None, None], "int32")}
        if self._model.spec.inputs is not None:
            signature[INPUTS] = inputs_signature(self._model)
        return backend().compile(
            lambda features: self._model.score_targets(features).log_probs, [signature], self._model
        )

    @functools.cached_property
    def shortlist(self) -> Shortlist:
        """The shortlist of the run; raises UserError if there is none or the model does not support shortlists."""
        if not self._model.selects_tokens or not self._model.spec.inputs:
            raise UserError(
                f"shortlist=True: {type(self._model).__name__} with problem {self._model.spec.name}: a model is "
                "wanted that writes pieces for a source, by an output layer with a row for each",
                "leave it out",
            )
        if self.read_shortlist is None:
            raise UserError("shortlist=True: a shortlist belongs to a run directory", "load one, or leave it out")
        return self.read_shortlist()

    def search(
        self, settings: SearchSettings, extra_length: int, uses_shortlist: bool = False, code_length: int = 0
    ) -> AnyBatchSearch:
        """Returns the search with these settings, compiled once for each structure of the settings.

        The arguments are those of `BatchSearch.with_settings`. Raises as `shortlist`.
        """
        key = settings.structure, uses_shortlist
        shortlist = self.shortlist if uses_shortlist else None
        search = self._kept(key)
        if search is None:
            with self._building:  # nobody waits for it whose search exists
                search = self._kept(key) or build_search(self._model, settings, extra_length, shortlist)
                with self._lock:
                    self._searches[key] = search
                    if len(self._searches) > MOST_SEARCHES:
                        self._searches.popitem(last=False)
        if isinstance(search, BatchSearch):
            return search.with_settings(settings, extra_length, code_length)
        return search if isinstance(search, BatchAnswer) else search.with_settings(settings, extra_length)

    def _kept(self, key: tuple[SearchSettings, bool]) -> AnyBatchSearch | None:
        with self._lock:
            if search := self._searches.get(key):
                self._searches.move_to_end(key)
            return search

    def _decode(self, request: DecodeRequest, is_warm_up: bool = False) -> Iterator[BatchHypotheses]:
        """See `decode`; if `is_warm_up`, decodes only the largest batches, as many as run in parallel."""
        rows, settings, hparams = request.rows, request.settings, request.hparams
        sizes = row_sizes(rows, hparams.extra_length, positions_in(self._model))
        most = batch_share(int(sizes.sum()), hparams.decode_batch_size // settings.rows_per_sentence)
        batches = batches_of(rows, sizes, most)
        run, queues = self._jobs.run, queues_of(batches)
        if is_warm_up:  # the longest come first
            run, queues = self._jobs.run_alone, [[batch] for batch in batches[: self._jobs.searches]]
        search = self.search(settings, hparams.extra_length, hparams.shortlist, request.code_length)
        vocab_size = self._model.spec.targets.vocab_size
        asked = SearchRows.build(request.seeds, request.prefixes, request.constraints, vocab_size, request.row_settings)

        def decode(queue: Sequence[Batched]) -> Iterator[list[BatchHypotheses]]:
            if isinstance(search, BatchSearch):
                return search.search(queue, asked, sizes, most)
            return ([(indices, search(batch))] for indices, batch in queue)

        with memory_errors(batches[0][1], settings.rows_per_sentence):
            yield from itertools.chain.from_iterable(run(decode, queues, self._jobs.searches))
