"""The objective of a training run, by its hparams; the candidate outputs that some objectives reward.

Legend: B sentences, K samples of each, C candidates: the target, then the samples, T length.
"""

import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from keras import ops

from t2t.backends.update import sampling_seed
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.inference.batch_search import BatchSearch
from t2t.inference.model_engine import build_batch_search
from t2t.inference.output_constraints import constrains_outputs
from t2t.inference.parallel import Jobs
from t2t.metrics import compute, higher_is_better, is_text_metric
from t2t.models.base import SequenceModel
from t2t.problems.base import Problem
from t2t.registry import OBJECTIVES
from t2t.registry.overrides import plugin_errors
from t2t.runs.data import OpenData
from t2t.search.settings import SAMPLE, SearchSettings
from t2t.specs import INPUTS, PAD_ID, TARGETS
from t2t.specs.features import FeatureKind
from t2t.training.objectives import Features, SampledObjective, TrainingObjective

log = logging.getLogger("t2t")


def build_objective(
    model: SequenceModel, data: Sequence[OpenData], hparams: HParams, run_seed: int
) -> TrainingObjective:
    """Returns the objective of a run.

    Args:
        model: of all of its problems.
        data: of its problems.
        hparams: of the run.
        run_seed: of the run.

    Raises:
        UserError: a model or problem that cannot be trained so, or no such metric.
    """
    owner = OBJECTIVES.get(hparams.objective)
    with plugin_errors(owner, "cannot be constructed"):
        objective: TrainingObjective = owner(hparams)
    asked = f"hparam objective={hparams.objective}"
    names = [one.problem.name for one in data]
    if hparams.scheduled_sampling_prob:
        _check_writes(model, names, f"hparam scheduled_sampling_prob={hparams.scheduled_sampling_prob}")
    if not isinstance(objective, SampledObjective):
        return objective
    _check_writes(model, names, asked)
    for one in data:
        if one.problem.spec().inputs is None:
            raise UserError(
                f"{asked}: {one.problem.name} has no inputs for which outputs could be sampled", "leave it out"
            )
        if constrains_outputs(one.problem, model.for_problem(one.problem.name), hparams):
            log.info(
                "%s: samples are the model's own, among them outputs that %s does not allow; decoding keeps to those "
                "that it allows",
                asked,
                one.problem.name,
            )
    problems = {one.problem.name if len(data) > 1 else "": one.problem for one in data}
    objective.draw = SampledCandidates(model, problems, hparams, run_seed)
    return objective


def _check_writes(model: SequenceModel, problems: Sequence[str], asked: str) -> None:
    """Raises UserError where the model does not write the targets of a problem token by token."""
    for name in problems:
        view = model.for_problem(name)
        if not view.autoregressive or view.spec.targets.kind != FeatureKind.TOKENS:
            raise UserError(
                f"{asked}: {type(model).__name__} does not write the targets of {name} token by token", "leave it out"
            )


Drawn = tuple[np.ndarray, np.ndarray]
"""Candidates (B, C, T) int32, zero padded, and their rewards (B, C) float32."""


class SampledCandidates:
    """Draws candidates with the decoder's search, on the training devices, with the current weights.

    The samples of an example are a function of the weights and (run seed, update, example), not of the rest of its
    batch. Like its target they begin with the language code, if there is one.

    Args:
        model: under training.
        problems: by name; the name is "" if the model has only one.
        hparams: of the run.
        run_seed: of the run.

    Raises:
        UserError: no such metric, or one that does not score decoded text.
    """

    def __init__(self, model: SequenceModel, problems: Mapping[str, Problem], hparams: HParams, run_seed: int):
        self._model, self._problems, self._hparams, self._run_seed = model, problems, hparams, run_seed
        self._jobs = Jobs(model)
        self._searches: dict[str, BatchSearch] = {}
        self._metric = hparams.objective_metric
        if not is_text_metric(self._metric):
            raise UserError(
                "it is teacher-forced",
                "name one of decoded text, e.g. gleu",
                hparam="objective_metric",
                value=self._metric,
            )
        self._sign = 1.0 if higher_is_better(self._metric) else -1.0

    def __call__(self, batches: Sequence[Features], update: int, problem: str) -> list[Drawn]:
        """Returns the candidates of each replica's batch.

        They are padded to the longest of them, or in a warm-up (update 0) to the maximum length, which needs the most
        memory.
        """
        settings = SearchSettings(
            method=SAMPLE, samples=self._hparams.objective_samples, seed=sampling_seed(self._run_seed, update)
        )
        if problem not in self._searches:
            model = self._model.for_problem(problem)
            self._searches[problem] = build_batch_search(model, settings, self._hparams.extra_length)
        search = self._searches[problem].with_settings(settings, self._hparams.extra_length)
        start = self._problems[problem].languages.marks().output_start

        def draw(job: tuple[int, Features]) -> Iterator[tuple[int, np.ndarray]]:
            number, batch = job
            result = search.search_batch(batch[INPUTS], _places(batch), prefix=start)
            ids_BKT = ops.convert_to_numpy(result.ids)
            yield number, ids_BKT[:, :, : int(ops.convert_to_numpy(result.lengths).max())] if update else ids_BKT

        samples = dict(self._jobs.run_alone(draw, list(enumerate(batches))))
        return [self._with_rewards(batch, samples[n], problem) for n, batch in enumerate(batches)]

    def _with_rewards(self, batch: Features, samples_BKT: np.ndarray, problem: str) -> Drawn:
        targets_BT = batch[TARGETS]
        candidates_BCT = _candidates(targets_BT, samples_BKT)
        rewards_BC = np.zeros(candidates_BCT.shape[:2], np.float32)
        for sentence, target in enumerate(targets_BT):
            if target.any():
                rows = [target, *samples_BKT[sentence]]
                rows = [np.trim_zeros(row, "b") for row in rows]
                rewards_BC[sentence] = self._rewards(rows, batch[INPUTS][sentence], problem)
        return candidates_BCT, rewards_BC

    def _rewards(self, candidates: Sequence[np.ndarray], source: np.ndarray, problem: str) -> list[float]:
        """Returns the rewards of a sentence's candidates, the first of which is the target.

        Like outputs that are evaluated, they are scored as the problem finishes them, given the input `source`.
        """
        of_problem = self._problems[problem]
        texts = [of_problem.decode_target(ids.tolist()) for ids in candidates]
        if of_problem.finishes:
            read = of_problem.decode_input(np.trim_zeros(source, "b").tolist())
            texts = [of_problem.finish(read, text).text for text in texts]
        scores = {
            text: compute([self._metric], [text], texts[:1], of_problem.target_language)[self._metric].value
            for text in set(texts)
        }
        return [self._sign * scores[text] for text in texts]


def widest_rows(batch: Features, model: SequenceModel, hparams: HParams) -> Features:
    """Returns a batch of inputs and targets with a row for each candidate, padded to the longest that may be sampled.

    Without sampling, returns the batch itself.
    """
    if hparams.rows_per_example == 1:
        return batch
    rows = {name: np.repeat(array, hparams.rows_per_example, axis=0) for name, array in batch.items()}
    longest = model.source_embedding.positions_of(batch[INPUTS].shape[1]) + hparams.extra_length
    longest = min(longest, model.longest_sequence or longest)
    return rows | {TARGETS: _widened(rows[TARGETS], max(longest, rows[TARGETS].shape[1]))}


def _candidates(targets_BT: np.ndarray, samples_BKT: np.ndarray) -> np.ndarray:
    """Returns targets and samples, (B, C, T) int32."""
    width = max(targets_BT.shape[1], samples_BKT.shape[2])
    rows_BCT = np.concatenate([_widened(targets_BT[:, None], width), _widened(samples_BKT, width)], axis=1)
    rows_BCT[(targets_BT == PAD_ID).all(axis=1)] = PAD_ID  # a row of padding has no target, and no samples
    return rows_BCT


def _widened(rows: np.ndarray, width: int) -> np.ndarray:
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, width - rows.shape[-1])])


def _places(batch: Features) -> np.ndarray:
    """Returns (B,) int32, the sampling seed of each example: a checksum of it without its padding."""
    return np.array(
        [
            zlib.crc32(b"".join(np.trim_zeros(batch[name][row].ravel(), "b").tobytes() for name in sorted(batch))) >> 1
            for row in range(len(batch[TARGETS]))
        ],
        np.int32,
    )
