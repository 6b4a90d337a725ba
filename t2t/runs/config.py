"""`RunConfig`: every option of a run under one name, which flags, `--config`, Python and `run.json` share.

An option has a value of one of these origins; where several give it, the first of them counts:

1. what the user gave: flags, the `--config` file, arguments of a function;
2. the record of the run that is resumed;
3. for a new run that starts with the weights of another, the record of that one;
4. the default.

`t2t.runs.resolving` merges them.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from t2t.backends.cluster import Cluster, find_cluster
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.hparams.field import check_values, param
from t2t.specs import DEFAULT_DATA_DIR, DEFAULT_TRAIN_DIR

TRAIN_AND_EVALUATE, TRAIN_ONLY = "continuous_train_and_eval", "train"
"""Schedules of training."""
GIVEN, RUN, START = "given", "the run in output_dir", "warm_start_from"
"""Origins of options."""

REMEMBERED = (
    "schedule", "local_eval_frequency", "eval_steps", "keep_checkpoint_max", "keep_best_checkpoints",
    "log_step_count_steps",
)  # fmt: skip
"""Options that shape a run on any machine, and that its record holds besides its names, hparams and seed."""

NAMES = ("problem", "model", "hparams_set")
"""Options that name what is trained."""
_LARGEST_SEED = 2**32 - 1
"""numpy's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The options of a run; flags take their types, defaults, bounds and help texts from here.

    Raises:
        UserError: a value of another type or out of bounds.
    """

    problem: str = param("", "Name of the problem; several to learn at once: a-b-c.")
    model: str = param("", "Name of the model.")
    hparams_set: str = param("", "Name of the hparams set.")
    hparams: str = param("", "Changes to the set: name=value,name=[v1,v2].")
    train_steps: int | None = None
    """Overrides the hparam of that name."""
    problem_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """`<problem>.<option>` for one of several problems, `<option>` for all that have it."""
    data_dir: str = param("", f"Folder of generated data; empty for {DEFAULT_DATA_DIR}.")
    tmp_dir: str = param("", "Folder of raw files and downloads; empty for tmp/ under --data_dir.")
    output_dir: str = param("", f"Folder of the run; empty for {DEFAULT_TRAIN_DIR}/<problem>/<model>-<hparams_set>.")
    t2t_usr_dir: str = param("", "Folder of a plug-in.")
    random_seed: int = param(0, "Seed of weights, order of examples and dropout.", minimum=0, maximum=_LARGEST_SEED)
    schedule: str = param(
        TRAIN_AND_EVALUATE, "Alternate training and evaluation, or only train.",
        choices=(TRAIN_AND_EVALUATE, TRAIN_ONLY),
    )  # fmt: skip
    worker_gpu: int = param(0, "GPUs to train on; 0 = all that are visible.", minimum=0)
    worker_cpu: int = param(0, "Replicas on the processor instead of GPUs; 0 = use GPUs, or one replica.", minimum=0)
    weight_shards: int = param(
        1, "Devices that share the weights of a replica, for models too large for one; more than 1 only with "
        "KERAS_BACKEND=jax.", minimum=1,
    )  # fmt: skip
    worker_hosts: str = param(
        "", "host:port of each process that trains, separated by commas, or slurm for those of an srun; empty for "
        "those in TF_CONFIG, or only for this process.",
    )  # fmt: skip
    worker_index: int = param(-1, "Number of this process among --worker_hosts, from 0; 0 writes the run.", minimum=-1)
    local_eval_frequency: int = param(1000, "Updates between two checkpoints, and between two evaluations.", minimum=1)
    eval_steps: int = param(
        100, "Batches of the dev split in an evaluation, at most; 0 = no evaluation while training.", minimum=0
    )
    keep_checkpoint_max: int = param(
        20, "Checkpoints that are kept, the newest ones, and also the best; 0 = all.", minimum=0
    )
    keep_best_checkpoints: int = param(
        1, "Best checkpoints of the evaluations that are kept; with more than 1, training ends by saving their mean as "
        "averaged-best.", minimum=1,
    )  # fmt: skip
    log_step_count_steps: int = param(50, "Updates between two reports.", minimum=1)
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
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    """Option -> where its value is from; options that are not here have their defaults."""

    def __post_init__(self):
        if isinstance(self.warm_start_from, os.PathLike):
            object.__setattr__(self, "warm_start_from", os.fspath(self.warm_start_from))
        check_values(self, "option")
        if self.keep_best_checkpoints > 1 and not self.evaluates:
            raise UserError(
                "this run does not evaluate, so that none is the best",
                f"leave it out, or train with --schedule={TRAIN_AND_EVALUATE} and --eval_steps above 0",
                option="keep_best_checkpoints",
                value=self.keep_best_checkpoints,
            )

    @classmethod
    def given(cls, options: Mapping[str, Any]) -> Self:
        """Returns the configuration with what the user gave; "" means not given."""
        values = {name: value for name, value in options.items() if value not in ("", {})}
        if values.get("train_steps", 0) is None:
            del values["train_steps"]
        return cls(**values, origins=dict.fromkeys(values, GIVEN))

    def filled(self, origin: str, **values: Any) -> Self:
        """Returns the configuration with values from `origin`, which replace what it has."""
        return dataclasses.replace(self, **values, origins={**self.origins, **dict.fromkeys(values, origin)})

    @functools.cached_property
    def data_folder(self) -> Path:
        """Folder of generated data."""
        return local_path(self.data_dir or DEFAULT_DATA_DIR)

    @functools.cached_property
    def tmp_folder(self) -> Path:
        """Folder of raw files."""
        return local_path(self.tmp_dir) if self.tmp_dir else self.data_folder / "tmp"

    @functools.cached_property
    def output_folder(self) -> Path:
        """Folder of the run."""
        default = f"{DEFAULT_TRAIN_DIR}/{self.problem}/{self.model}-{self.hparams_set}"
        return local_path(self.output_dir or default)

    @property
    def evaluates(self) -> bool:
        """Whether there is any evaluation while training."""
        return self.schedule == TRAIN_AND_EVALUATE and self.eval_steps > 0

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The processes that train together; raises UserError if their addresses are invalid."""
        return find_cluster(self.worker_hosts, self.worker_index)

    def remembered(self) -> dict[str, Any]:
        """Returns the options of `REMEMBERED` by name, without the best checkpoints if there is no evaluation."""
        unread = () if self.evaluates else ("keep_best_checkpoints",)
        return {name: getattr(self, name) for name in REMEMBERED if name not in unread}


OPTIONS = tuple(field.name for field in dataclasses.fields(RunConfig) if field.name != "origins")
"""Names of all options."""
TRAIN_OPTIONS = tuple(name for name in OPTIONS if name != "tmp_dir")
"""Those that training reads, which generates no data."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShortlistOptions:
    """What a shortlist contains, and from how many examples it is learned.

    Raises:
        UserError: a value of another type or out of bounds.
    """

    frequent: int = param(1000, "Most frequent target pieces, candidates for every input.", minimum=0)
    translations: int = param(20, "Most probable translations of each source piece.", minimum=1)
    max_examples: int = param(200_000, "Training examples to learn from, evenly spread; 0 = all.", minimum=0)

    def __post_init__(self):
        check_values(self, "option")
