"""Assembles a training run: data, model, step, trainer, callbacks, run directory."""

import contextlib
import dataclasses
import functools
import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from t2t.backends import backend
from t2t.backends.cluster import ALONE, Cluster
from t2t.checkpoints.adapters import AdapterBase
from t2t.checkpoints.compatibility import architecture_state, vocabularies_state
from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.checkpoints.store import CheckpointStore
from t2t.data.reading.mixture import MixedBatches, ProblemSchedule, WorkerBatches, shares_by_size
from t2t.data.reading.prefetch import Prefetch
from t2t.data.reading.training_batches import TrainingBatches
from t2t.errors import memory_errors_as_machine_errors
from t2t.inference.parallel import Sharing
from t2t.models.creation import all_weights_exist, create_model
from t2t.registry.overrides import is_of_plugin
from t2t.runs.data import encoders_of, joined_spec
from t2t.runs.decisions import check_adapters, compilation_line, decide, recorded_hparams
from t2t.runs.model_check import check_first_call
from t2t.runs.objectives import build_objective
from t2t.runs.resolving import ResolvedRun, changeable_fields, check_same_beginning
from t2t.runs.run_evaluator import RunEvaluator, average_best
from t2t.runs.starting import check_same_start, log_settings, restore_latest, warm_start, warn_changed_train_steps
from t2t.runs.trained_problems import build_parts, micro_batches_of
from t2t.specs import TRAIN
from t2t.training.callbacks.checkpoints import BestTracker, CheckFinite, SaveCheckpoints
from t2t.training.callbacks.epochs import CallEpochHooks
from t2t.training.callbacks.evaluation import Evaluate
from t2t.training.callbacks.metrics_log import LogMetrics
from t2t.training.callbacks.progress import EstimateTime, ShowProgress
from t2t.training.callbacks.signals import AgreeToStop, StopOnSignal, StopRequestedError
from t2t.training.cost import used_memory
from t2t.training.optimizers import build_optimizer
from t2t.training.schedules import learning_rate
from t2t.training.step import UpdateStep
from t2t.training.trained_weights import build_adapters, freeze_weights
from t2t.training.trainer import DivergedError, Plan, Trainer

log = logging.getLogger("t2t")


class TrainingRun:
    """A model under training; `fit` trains it.

    Args:
        resolved: whose data is compared with its checksums now.
        cluster: the processes that train together.

    Raises:
        UserError: a model that does not fit the set or the problem, or missing, different or damaged data.
    """

    def __init__(self, resolved: ResolvedRun, cluster: Cluster = ALONE):
        self.resolved, self.config = resolved, resolved.config
        self.resumed: RunDir | None = None
        """The run that is resumed, once `fit` holds its lock."""
        self.base: AdapterBase | None = None
        resolved.model_class  # noqa: B018 - errors in it are raised before the devices start
        engine = backend()
        self.devices = engine.devices(
            self.config.worker_gpu, self.config.worker_cpu, cluster, self.config.weight_shards
        )
        # Workers wait for each other here, and thus until the chief has generated the data.
        self.workers = engine.workers(self.devices, cluster)
        with self.workers.guard():
            self.data = resolved.data
            for one in self.data:
                one.verify()
            self.hparams = decide(
                resolved.hparams,
                resolved.model_class,
                self.data,
                compiles=self.devices.are_gpus or engine.always_compiles,
                bfloat16=engine.multiplies_bfloat16(),
                recorded=recorded_hparams(resolved.run, self.workers),
                overrides=self.config.hparams,
            )
            self._build_model()
            self._plan_updates()
        self.record = resolved.record(self.hparams, self.data)

    def _build_model(self) -> None:
        hparams, engine = self.hparams, backend()
        keras.utils.set_random_seed(self.config.random_seed)
        with memory_errors_as_machine_errors("the model", "make it smaller"), self.devices.scope():
            policy = engine.apply_precision(hparams.precision)
            self.model = create_model(
                self.resolved.model_class, hparams, joined_spec([one.problem.spec() for one in self.data]), policy
            )
            freeze_weights(self.model, hparams.frozen_weights)
            adapters = build_adapters(self.model, hparams)
            optimizer = build_optimizer(hparams)
        self.step = UpdateStep(
            self.model,
            optimizer,
            self.devices,
            run_seed=self.config.random_seed,
            clip_grad_norm=hparams.clip_grad_norm,
            weight_decay=hparams.decoupled_weight_decay,
            gradient_noise=hparams.gradient_noise,
            ema_decay=hparams.ema_decay,
            scale_loss=hparams.precision == "mixed_float16",
            fused_attention=hparams.fused_attention,
            reduction_dtype=hparams.gradient_reduction,
            xla=hparams.xla == "on",
            objective=build_objective(self.model, self.data, hparams, self.config.random_seed),
            adapters=adapters,
        )

    def _plan_updates(self) -> None:
        """Chooses the problem and the batches of each update."""
        hparams, step = self.hparams, self.step
        micro_batches = micro_batches_of(hparams, step.replicas)
        per_update = micro_batches * step.replicas
        is_new = self.resolved.run is None
        self.parts = build_parts(self.model, self.data, hparams, self.config, per_update, is_new=is_new)
        weights: Any = [1.0] * len(self.parts)
        if hparams.problem_choice == "size":
            weights = shares_by_size([len(one.readers[TRAIN]) for one in self.data], hparams.problem_temperature)
        elif len(hparams.problem_weights) > 1:
            weights = hparams.problem_weights
        self.schedule = ProblemSchedule(weights, self.config.random_seed)
        batches: TrainingBatches | MixedBatches = self.parts[0].batches
        if len(self.parts) > 1:
            batches = MixedBatches({part.name: part.batches for part in self.parts}, self.schedule, per_update)
        self.batches = WorkerBatches(batches, step.replicas, step.own) if self.workers.are_several else batches
        self.plan = Plan(
            train_steps=hparams.train_steps,
            micro_batches=micro_batches,
            rate=functools.partial(learning_rate, hparams),
            log_every=self.config.log_step_count_steps,
            problem_of=lambda update: self.parts[self.schedule(update)].name,
        )

    def fit(self, callbacks: Sequence[keras.callbacks.Callback] = ()) -> int:
        """Trains, or resumes the run in the output directory; returns the signal that ended training early, or 0.

        With several workers, only the chief reads and writes the output directory.

        Args:
            callbacks: of the caller, called after those that log, save and evaluate; see `checked_callbacks`.

        Raises:
            UserError: the output directory belongs to another run, or training diverged.
            MachineError: out of memory, disk full, or another worker has ended.
        """
        folder, is_chief = self.config.output_folder, self.workers.is_chief
        # The precision is a setting of the process, which another model may have changed.
        backend().apply_precision(self.hparams.precision)
        with self.workers.guard(), contextlib.ExitStack() as stack:
            run_dir = RunDir(folder, self.record)
            store = CheckpointStore(run_dir.checkpoints_folder)
            if is_chief:
                stack.enter_context(lock_run(folder))
                self._check_run(folder)
            self.workers.check_same(self._shared())
            trainer = self._open_trainer(store, stack)
            evaluator = None
            if self.config.evaluates:
                cluster, several = self.workers.cluster, self.workers.are_several
                sharing = Sharing(cluster.index, len(cluster.addresses), self.workers.exchange) if several else None
                evaluator = RunEvaluator(self.parts, self.config.eval_steps, self.hparams.best_metric, sharing)
            if is_chief:
                self._log_progress(folder, trainer.update)
            if trainer.update < self.plan.train_steps:
                stack.callback(self.step.stop_compiling)
                self._warm_up(trainer, evaluator)
            signals = StopOnSignal()
            stack.callback(signals.release)
            signals.take_over()
            try:
                trainer.fit(self._all_callbacks(trainer, store, signals, evaluator, callbacks))
            except DivergedError as error:
                latest = store.latest()
                found = "no checkpoint was saved before"
                good = found if latest is None else f"the last good checkpoint is step {latest}"
                raise DivergedError(f"{error}", f"{good}") from error
            if is_chief:
                # The last evaluation may have found another best, or a crash interrupted the last removal.
                store.prune(self.config.keep_checkpoint_max)
                run_dir.publish_figures()
            received = self._report_signal(trainer.update, signals.received or 0)
            if received or evaluator is None or self.config.keep_best_checkpoints == 1:
                return received
            signals.take_over()
            # Resuming the run repeats this if a signal stops it.
            with contextlib.suppress(StopRequestedError), self._interruptible(signals):
                average_best(store, self.step, evaluator, self.workers)
            return self._report_signal(trainer.update, signals.received or 0)

    def _open_trainer(self, store: CheckpointStore, stack: contextlib.ExitStack) -> Trainer:
        """Restores or starts the run on all workers, and prefetches its batches until `stack` is closed."""
        with self.devices.scope():
            begin = self._begin(store) if self.workers.is_chief else (0, {})
            update, data_state = self.workers.share([*self.step.state_variables, *self.step.ema], begin)
        if data_state:
            self.batches.seek(data_state)
        data_state = self.batches.state()
        per_update = self.plan.micro_batches * self.step.replicas
        batches = stack.enter_context(Prefetch(self.batches, depth=max(4, 2 * per_update)))
        return Trainer(self.step, batches, data_state, self.plan, update)

    def _interruptible(self, signals: StopOnSignal) -> contextlib.AbstractContextManager:
        """Returns a context in which a signal aborts an evaluation; with several workers, all must finish it."""
        return contextlib.nullcontext() if self.workers.are_several else signals.interruptible()

    def _check_run(self, folder: Path) -> None:
        """Raises UserError if the output directory holds another run; one without checkpoints is replaced later."""
        if not RunDir.exists(folder):
            return
        run = RunDir.open(folder)  # read again: another process may have trained here until it released the lock
        check_same_beginning(run, self.config.warm_start_from)
        log_settings(run, self.config)
        if run.can_resume:
            run.check_same(self.record, changeable_fields(run.record, self.data))
            check_same_start(run, self.config.warm_start_from)
            warn_changed_train_steps(run, self.hparams)
            self.step.updates_before = run.record.warm_start.get("optimizer_updates", 0)
            self.resumed = run

    def _shared(self) -> dict[str, Any]:
        """Returns the values that must be the same on all workers, by their names in error messages."""
        record = self.record
        return {
            "--problem": record.problem, "--model": record.model, "hparam": record.hparams,
            "--random_seed": self.config.random_seed, "--local_eval_frequency": self.config.local_eval_frequency,
            "--eval_steps": self.config.eval_steps, "--schedule": self.config.evaluates,
            "--keep_best_checkpoints": self.config.keep_best_checkpoints,
            "data": record.data_fingerprint, "version of t2t, Keras or TensorFlow": record.versions,
        }  # fmt: skip

    def _report_signal(self, update: int, received: int) -> int:
        """Logs and returns the signal that ended training on any worker, or 0."""
        of_workers = self.workers.gather([received])[:, 0]
        worker = int(of_workers.argmax())
        if found := int(of_workers[worker]):
            name = signal.Signals(found).name
            where = f" to {self.workers.cluster.describe(worker)}" if self.workers.are_several else ""
            log.info("stopped by %s%s; update %d is saved; the same command resumes from there", name, where, update)
        return found

    def _warm_up(self, trainer: Trainer, evaluator: RunEvaluator | None) -> None:
        """Runs the largest batches, so that a lack of memory shows now; with XLA, a batch of each shape."""
        if self.step.xla and self.workers.is_chief:
            shapes = [part.batches.shapes for part in self.parts]
            log.info(compilation_line(shapes, len(self.step.own), self.step.compiles_meanwhile))
        if is_of_plugin(type(self.model)):
            check_first_call(self.model)
        with all_weights_exist(self.model):
            for part in self.parts:
                trainer.warm_up(part.warm_up_batches(self.step.xla), part.name)
            if evaluator is not None:
                evaluator.warm_up()

    def _begin(self, store: CheckpointStore) -> tuple[int, dict]:
        """Restores the latest checkpoint, or starts a new run; returns the last update and the state of the data."""
        if store.latest() is not None:
            store.publish_pointers()  # this run may have nothing to change in them
            update, state, self.base = restore_latest(self.step, store, self.config.random_seed, self.config.model)
            return update, state
        check_adapters(self.hparams, self.config)
        if self.config.warm_start_from:
            start = warm_start(self.step, self.config, encoders_of(self.data), self.config.output_folder)
            self.base = start.base
            self.record = dataclasses.replace(self.record, warm_start=start.record(self.config.warm_start_from))
            for line in start.lines():
                log.info(line)
        return 0, {}

    def _log_progress(self, folder: Path, update: int) -> None:
        last = self.plan.train_steps
        if update >= last:
            log.info(
                "%s is finished: %d updates done of --train_steps=%d; to train longer, pass a larger --train_steps",
                folder, update, last,
            )  # fmt: skip
        elif update:
            log.info("resuming %s after update %d, going to update %d", folder, update, last)

    def _all_callbacks(
        self,
        trainer: Trainer,
        store: CheckpointStore,
        signals: StopOnSignal,
        evaluator: RunEvaluator | None,
        of_caller: Sequence[keras.callbacks.Callback],
    ) -> list[keras.callbacks.Callback]:
        """Returns the callbacks of this worker, in the order in which they are called."""
        hooks = CallEpochHooks(trainer, of_caller, self.config.local_eval_frequency)
        if self.workers.is_chief:
            own = self._chief_callbacks(trainer, store, signals, evaluator, hooks)
        else:
            helping = [self._evaluation_callback(trainer, evaluator)] if evaluator is not None else []
            own = [CheckFinite(trainer, self.config.local_eval_frequency), *helping]
        several = self.workers.are_several
        agreement = [AgreeToStop(trainer, self.workers, self.config.local_eval_frequency)] if several else []
        return [*own, signals, *of_caller, hooks.ending, *agreement]

    def _chief_callbacks(
        self,
        trainer: Trainer,
        store: CheckpointStore,
        signals: StopOnSignal,
        evaluator: RunEvaluator | None,
        hooks: CallEpochHooks,
    ) -> list[keras.callbacks.Callback]:
        """Opens the run directory; returns the callbacks that write to it, and last the `hooks` of the caller's."""
        config, run = self.config, self.resumed
        if run is None:
            run = RunDir.create(config.output_folder, self.record, encoders_of(self.data))
        else:  # records what has changed
            run.resume(self.record, changeable_fields(run.record, self.data))
        progress = ShowProgress(trainer)
        metrics = LogMetrics(run.append_metrics, run.path / "events")
        state = {
            "seed": config.random_seed,
            **vocabularies_state(run.record.vocabularies),
            **architecture_state(run.record.model, self.model.hparams),
            **(self.base.to_state() if self.base else {}),
        }
        keep_max = config.keep_checkpoint_max
        saving = SaveCheckpoints(trainer, store, config.local_eval_frequency, keep_max, state, run.publish_figures)
        memory = functools.partial(used_memory, self.devices)
        callbacks = [EstimateTime(trainer, evaluator is not None, memory, progress.line), metrics, progress, saving]
        if evaluator is not None:
            callbacks.append(
                self._evaluation_callback(
                    trainer,
                    hooks.tests(evaluator, evaluator.loss),
                    evaluator.best_trackers(run, store, config.keep_best_checkpoints),
                    listeners=[
                        # first, so that readers of figures find the outputs, too
                        functools.partial(evaluator.write_outputs, run),
                        metrics.write_evaluation,
                        functools.partial(evaluator.show_each, progress.show_evaluation),
                    ],
                    interruptible=functools.partial(self._interruptible, signals),
                )
            )
        return [*callbacks, hooks]

    def _evaluation_callback(
        self, trainer: Trainer, evaluate: Callable[[], dict[str, float]], best_trackers: Sequence[BestTracker] = (),
        **options: Any,
    ) -> Evaluate:  # fmt: skip
        """Returns the evaluation callback of the chief, or of a worker that helps it."""
        return Evaluate(
            trainer,
            evaluate,
            best_trackers,
            every=self.config.local_eval_frequency,
            patience=self.hparams.early_stopping_steps,
            agree=lambda is_due: bool(self.workers.gather([int(is_due)])[0, 0]),
            **options,
        )
