"""The batches of an update in the form that the JAX programs take: a part is a batch for each replica.

Legend: R replicas, N numbers.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from t2t.models.base import SequenceModel
from t2t.training.jax.devices import MeshDevices
from t2t.training.jax.padding import Padding, Shape, empty_batch, pad_batches, target_sizes
from t2t.training.jax.workers import gather
from t2t.training.objectives import TrainingObjective
from t2t.training.seeds import dropout_seed
from t2t.training.step import Features


class ReplicaBatches(NamedTuple):
    """A batch for each replica, as part of an update; axis 0 of all arrays is the replicas."""

    features: dict[str, jax.Array]
    seeds: jax.Array
    """(R, 4) uint32."""
    sizes: jax.Array
    """(R,) float32: target tokens with padding."""
    counts: jax.Array
    """(R,) float32: 1 for a real batch, 0 for one that is computed and ignored."""


class Parts:
    """Makes the parts of updates.

    Args:
        model: to train.
        devices: to train on.
        objective: prepares the batches.
        run_seed: seed of the dropout masks.
    """

    def __init__(self, model: SequenceModel, devices: MeshDevices, objective: TrainingObjective, run_seed: int):
        self._model, self._devices, self._objective, self._run_seed = model, devices, objective, run_seed
        self._paddings: dict[str, Padding] = {}

    def of_update(self, micro_batches: Sequence[Sequence[Features]], update: int, problem: str) -> list[ReplicaBatches]:
        """Returns the parts of an update: one for each micro-batch, or for each micro-batch one per replica."""
        return [
            part
            for number, batches in enumerate(micro_batches)
            for part in self._of_micro_batch(batches, update, number, problem)
        ]

    def _of_micro_batch(
        self, batches: Sequence[Features], update: int, micro_batch: int, problem: str
    ) -> list[ReplicaBatches]:
        """Returns one part with the batches of all replicas, or, if their shapes differ, a part for each.

        In the second case every device computes each batch, which counts on one of them.
        """
        own = self._devices.own
        batches = self._objective.prepare(batches, update, problem)
        seeds = np.stack([dropout_seed(self._run_seed, update, micro_batch, r) for r in own]).view(np.uint32)
        sizes, ones = target_sizes(batches), np.ones(len(batches), np.float32)
        shapes_R = self._shapes(batches)
        shape = self._padding(problem).common_shape(shapes_R)
        if shape is not None:
            return [self._part(pad_batches(batches, shape), seeds, sizes, ones)]
        parts = []
        for replica, of_replica in enumerate(shapes_R):
            batch = batches[own.index(replica)] if replica in own else empty_batch(of_replica, batches[0])
            counts = np.array([r == replica for r in own], np.float32)
            parts.append(self._part(pad_batches([batch] * len(batches), of_replica), seeds, sizes, counts))
        return parts

    def _shapes(self, batches: Sequence[Features]) -> list[Shape]:
        """Returns the shapes of the batches of all replicas."""
        own: list[Shape] = [{name: array.shape for name, array in batch.items()} for batch in batches]
        if len(own) == self._devices.replicas:
            return own
        flat_N = np.array([[size for name in sorted(shape) for size in shape[name]] for shape in own]).ravel()
        all_RN = gather(flat_N).reshape(self._devices.replicas, -1).tolist()
        return [
            {name: tuple(itertools.islice(sizes, len(own[0][name]))) for name in sorted(own[0])}
            for sizes in map(iter, all_RN)
        ]

    def _part(self, stacked: Features, seeds: np.ndarray, sizes: np.ndarray, counts: np.ndarray) -> ReplicaBatches:
        """Returns the part with its arrays split over the devices."""
        return ReplicaBatches(*self._devices.split((stacked, seeds, sizes, counts)))

    def _padding(self, problem: str) -> Padding:
        if problem not in self._paddings:
            model = self._model.for_problem(problem) if problem else self._model
            self._paddings[problem] = Padding(model.spec, model.longest_sequence)
        return self._paddings[problem]
