"""`Experiment`: a run from its options to what it has learned.

experiment = Experiment.resolve(RunConfig.given(options))    # names become objects
experiment.check(needs_data=True, generates=False)           # the run that is there, data, files; still no TensorFlow
experiment.train()
print(*experiment.evaluate())
experiment.load().translator().translate(["one text"])
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from t2t.backends.cluster import ALONE
from t2t.checkpoints.layout import LATEST
from t2t.checkpoints.store import CheckpointStore
from t2t.runs.resolving import ResolvedRun
from t2t.runs.run_checks import check_checkpoint, open_run
from t2t.runs.startup import prepare_framework
from t2t.specs import DEV

if TYPE_CHECKING:
    import keras

    from t2t.runs.evaluation import Evaluation
    from t2t.runs.loading import LoadedRun


class Experiment(ResolvedRun):
    """A run that is trained, evaluated and loaded."""

    def train(
        self, callbacks: "Sequence[keras.callbacks.Callback]" = (), report: Callable[[str], None] | None = None
    ) -> int:
        """Trains, or resumes the run in the output directory; returns the signal that ended training early, or 0.

        Args:
            callbacks: of the caller; see `TrainingRun.fit`.
            report: is called before training with each line that describes the run, in the process that writes it.

        Raises:
            UserError, MachineError: see `TrainingRun` and its `fit`.
        """
        prepare_framework()
        from t2t.runs.describing import describe
        from t2t.runs.training import TrainingRun

        run = TrainingRun(self, self.config.cluster)
        if report and run.workers.is_chief:
            with run.workers.guard():
                for line in describe(run):
                    report(line)
        return run.fit(callbacks)

    def evaluate(self, split: str = DEV, eval_steps: int = 0) -> "Iterator[Evaluation]":
        """Evaluates the latest checkpoint on a split of the data of each problem, as `t2t-eval` does.

        Raises:
            UserError: no run, or of other names; no checkpoint; see also `t2t.runs.evaluation.open_split`.
        """
        from t2t.runs.evaluation import evaluate, open_split

        config = self.config
        run = open_run(config.output_folder, config.problem, config.model, config.hparams_set)
        check_checkpoint(CheckpointStore(run.checkpoints_folder), LATEST)
        for loaded, data in open_split(run, self.load, config.problem, config.data_dir, split):
            yield evaluate(loaded, data, split, eval_steps)

    def load(self, problem: str = "") -> "LoadedRun":
        """Returns the run with its latest checkpoint, which `LoadedRun.translator` decodes with; see `loading.load`."""
        from t2t.runs.loading import load

        config = self.config
        devices = (config.worker_gpu, config.worker_cpu, config.weight_shards)
        return load(
            config.output_folder, LATEST, config.t2t_usr_dir or None, self.given_hparams, problem,
            devices if config.cluster is ALONE else None,  # of several processes that trained, one decodes
        )  # fmt: skip
