"""How a training run is carried out, apart from what it learns."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How a run is carried out; nothing here changes what an update computes but the seed and the replicas."""

    seed: int = 0
    worker_gpu: int = 0
    worker_cpu: int = 0
    eval_every: int = 1000
    """Updates between two evaluations, and between two checkpoints."""
    eval_steps: int = 100
    """At most this many batches of the dev split in an evaluation; 0 = no evaluation while training."""
    keep_checkpoint_max: int = 20
    log_every: int = 50
    warm_start_from: str = ""
    warm_start_other_vocabulary: bool = False
    """Whether what the run begins with may be of other vocabularies."""
    warm_start_optimizer: bool = False
    """Whether to begin with the state of its optimizer, too."""
    evaluates: bool = True
    """Whether to evaluate while training (`continuous_train_and_eval`) or not (`train`)."""

    @property
    def evaluates_dev(self) -> bool:
        """Whether there is any evaluation while training."""
        return self.evaluates and self.eval_steps > 0
