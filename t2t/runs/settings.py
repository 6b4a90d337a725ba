"""How a training run is carried out, independent of what it learns."""

import dataclasses
import functools
import os
from typing import Any

from t2t.errors import UserError
from t2t.hparams.field import check_values, param
from t2t.training.cluster import ALONE, Cluster, find_cluster

_LARGEST_SEED = 2**32 - 1
"""numpy's."""


REMEMBERED = (
    "eval_every", "eval_steps", "keep_checkpoint_max", "keep_best_checkpoints", "log_every", "evaluates",
)  # fmt: skip
"""Settings that shape a run on any machine; a resumed run keeps them unless they are given again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How a run is carried out; the flags of `t2t-trainer` take help, defaults and bounds from here.

    Raises:
        UserError: a value of another type or out of bounds.
    """

    seed: int = param(0, "Seed of weights, order of examples and dropout.", minimum=0, maximum=_LARGEST_SEED)
    worker_gpu: int = param(0, "GPUs to train on; 0 = all that are visible.", minimum=0)
    worker_cpu: int = param(0, "Replicas on the processor instead of GPUs; 0 = use GPUs, or one replica.", minimum=0)
    weight_shards: int = param(
        1, "Devices that share the weights of a replica, for models too large for one; more than 1 only with "
        "KERAS_BACKEND=jax.", minimum=1,
    )  # fmt: skip
    worker_hosts: str = param(
        "", "host:port of each process that trains, separated by commas, or slurm for those of an srun; empty for "
        "those in TF_CONFIG, or for this process alone.",
    )  # fmt: skip
    worker_index: int = param(-1, "Number of this process among --worker_hosts, from 0; 0 writes the run.", minimum=-1)
    eval_every: int = param(1000, "Updates between two checkpoints, and between two evaluations.", minimum=1)
    eval_steps: int = param(
        100, "Batches of the dev split in an evaluation, at most; 0 = no evaluation while training.", minimum=0
    )
    keep_checkpoint_max: int = param(
        20, "Checkpoints that are kept, the newest ones, and the best besides; 0 = all.", minimum=0
    )
    keep_best_checkpoints: int = param(
        1, "Best checkpoints of the evaluations that are kept; with more than 1, training ends by saving their mean as "
        "averaged-best.", minimum=1,
    )  # fmt: skip
    log_every: int = param(50, "Updates between two reports.", minimum=1)
    warm_start_from: str = param(
        "", "Run or checkpoint whose weights a new run starts with; those with the name and shape of a variable "
        "of the model are taken. Its vocabularies must be this run's, and so must hparams that say what these weights "
        "compute. A problem, model or set that is not given is that run's; its hparams of the network come with the "
        "set.",
    )  # fmt: skip
    warm_start_other_vocabulary: bool = param(
        False, "Allows other vocabularies in --warm_start_from: where that of a feature differs, its embeddings and "
        "output layer take the rows of pieces in both vocabularies, and the others are initialized.",
    )  # fmt: skip
    warm_start_optimizer: bool = param(
        False, "Takes the optimizer state from --warm_start_from, too: the slots of the weights and rows that are "
        "taken, and the number of updates.",
    )  # fmt: skip
    evaluates: bool = param(True, "Whether to evaluate while training.")

    def __post_init__(self):
        if isinstance(self.warm_start_from, os.PathLike):
            object.__setattr__(self, "warm_start_from", os.fspath(self.warm_start_from))
        check_values(self, "setting")
        if self.keep_best_checkpoints > 1 and not self.evaluates_dev:
            raise UserError(
                f"--keep_best_checkpoints={self.keep_best_checkpoints}: this run does not evaluate, so that none is "
                f"the best; leave it out, or train with --schedule=continuous_train_and_eval and --eval_steps above 0"
            )

    def devices(self, cluster: Cluster = ALONE) -> tuple[int, int, Cluster, int]:
        """Returns the arguments of `TrainingEngine.devices`."""
        return self.worker_gpu, self.worker_cpu, cluster, self.weight_shards

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The processes that train together; raises UserError if their addresses are invalid."""
        return find_cluster(self.worker_hosts, self.worker_index)

    def remembered(self) -> dict[str, Any]:
        """Returns the settings of `REMEMBERED` by name, without the best checkpoints if there is no evaluation."""
        unread = () if self.evaluates_dev else ("keep_best_checkpoints",)
        return {name: getattr(self, name) for name in REMEMBERED if name not in unread}

    @property
    def evaluates_dev(self) -> bool:
        """Whether there is any evaluation while training."""
        return self.evaluates and self.eval_steps > 0
