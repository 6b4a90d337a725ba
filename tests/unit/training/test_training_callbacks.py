import contextlib
import functools
import io
import json
import math
import os
import signal
import types
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from training_fakes import Step, trainer

from t2t.checkpoints.best import Best
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import MachineError
from t2t.runs.training import TrainingRun
from t2t.training.callbacks.best import BestTracker
from t2t.training.callbacks.checkpoints import SaveCheckpoints
from t2t.training.callbacks.epochs import CallEpochHooks
from t2t.training.callbacks.evaluation import Evaluate
from t2t.training.callbacks.metrics_log import LogMetrics
from t2t.training.callbacks.progress import ShowProgress
from t2t.training.callbacks.signals import StopOnSignal, StopRequestedError
from t2t.training.trainer import DivergedError, Trainer
from t2t.training.workers import WorkerLostError

CHECK_WEIGHTS = Trainer.check_weights


class Store:
    """Remembers what was saved and which was best."""

    def __init__(self):
        self.saved, self.pruned, self.marked, self.ranked = {}, [], [], []

    def save(self, step, **arrays):
        self.saved[step] = arrays

    def prune(self, keep):
        self.pruned.append(keep)

    def has(self, step):
        return step in self.saved

    def mark_best(self, step, metric, value, problem):
        self.marked.append((step, metric, value))

    def best(self, problem):
        return Best(*self.marked[-1]) if self.marked else None

    def ranking(self):
        return self.ranked

    def rank_best(self, ranking):
        self.ranked = ranking


@pytest.fixture(autouse=True)
def _nothing_to_save(monkeypatch):
    for name in ("model_arrays", "optimizer_arrays", "ema_arrays"):
        monkeypatch.setattr(f"t2t.training.callbacks.checkpoints.{name}", lambda step, name=name: name)
    monkeypatch.setattr(Trainer, "check_weights", lambda *_: None)


# === Checkpoints ===


def test_saves_every_so_often_and_at_the_end():
    store, run = Store(), trainer(train_steps=5)
    run.fit([SaveCheckpoints(run, store, every=2, keep_max=3, state={"seed": 7})])
    assert list(store.saved) == [2, 4, 5]
    assert store.pruned == [3, 3, 3]
    assert store.saved[4] == {
        "model": "model_arrays", "optimizer": "optimizer_arrays", "ema": "ema_arrays",
        "state": {"seed": 7, "data": {"batch": 4}},
    }  # fmt: skip


def test_the_last_update_is_saved_once():
    store, run = Store(), trainer(train_steps=4)
    run.fit([SaveCheckpoints(run, store, every=2, keep_max=0)])
    assert store.pruned == [0, 0]


def test_where_a_run_begins_is_saved_already():
    store, run = Store(), trainer(train_steps=4, update=4)
    run.fit([SaveCheckpoints(run, store, every=2, keep_max=0)])
    assert store.saved == {}


def test_what_diverged_is_not_saved():
    store, run = Store(), trainer(Step(bad=(4,)), train_steps=9, log_every=100)
    with pytest.raises(DivergedError, match="at update 4"):
        run.fit([SaveCheckpoints(run, store, every=2, keep_max=0)])
    assert list(store.saved) == [2]


class OtherWorkers:
    """Of a cluster; they wait for nobody when training begins, and are lost afterwards."""

    are_several = True

    def __init__(self, is_chief):
        self.is_chief, self.asked = is_chief, 0

    def gather(self, numbers):
        self.asked += 1
        if self.asked > 1:
            raise WorkerLostError("lost")
        return np.array([numbers])


@pytest.mark.parametrize("is_chief", [True, False])
@pytest.mark.parametrize(("train_steps", "every"), [(9, 3), (2, 3)])
@pytest.mark.parametrize("spoilt", ["an update", "the weights"])
def test_every_worker_finds_at_a_checkpoint_that_a_run_diverged(is_chief, train_steps, every, spoilt, monkeypatch):
    """At a checkpoint between two log steps, or at the end of a run."""
    run = trainer(Step(bad=(2,) if spoilt == "an update" else ()), train_steps=train_steps, log_every=100)
    if spoilt == "the weights":
        check = functools.partial(CHECK_WEIGHTS, run, {"a": np.array([math.nan], np.float32)})
        monkeypatch.setattr(run, "check_weights", lambda _: check())
    store, workers = Store(), OtherWorkers(is_chief)

    def evaluation_callback(*_):
        return Evaluate(run, dict, [], every=every, agree=lambda due: bool(workers.gather([int(due)])[0, 0]))

    fit = types.SimpleNamespace(workers=workers, settings=types.SimpleNamespace(eval_every=every))
    fit._evaluation_callback = evaluation_callback
    fit._chief_callbacks = lambda *_: [SaveCheckpoints(run, store, every, keep_max=0), evaluation_callback()]
    callbacks = TrainingRun._all_callbacks(fit, run, store, StopOnSignal(), object(), ())
    with pytest.raises(DivergedError, match=r"^training diverged (at update 2: loss nan|by update \d: a is)"):
        run.fit(callbacks)
    assert (run.update, store.saved) == (min(every, train_steps), {})


class Clock:
    """Simulated time, and a device that needs 2 s for each update and runs them one after the other."""

    def __init__(self):
        self.now = self.free = 0.0

    def monotonic(self):
        return self.now

    def take(self, seconds):
        self.now += seconds


class Asynchronous(Step):
    """Returns at once; reading the results of an update waits for it."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def __call__(self, *args):
        self._clock.free = max(self._clock.free, self._clock.now) + 2.0
        return super().__call__(*args)._replace(finite=Waits(self._clock))


class Waits:
    def __init__(self, clock):
        self._clock, self._ready = clock, clock.free

    def __bool__(self):
        self._clock.now = max(self._clock.now, self._ready)
        return True


@pytest.mark.parametrize("every", [2, 3, 4, 5, 100])
def test_the_time_of_updates_counts_and_that_of_saving_and_evaluating_does_not(every, monkeypatch):
    """Updates of 3 tokens, 2 s each; a checkpoint takes 10 s, an evaluation 100 s, a hook 1,000 s."""
    clock, reports = Clock(), []
    monkeypatch.setattr("t2t.training.trainer.time", clock)
    monkeypatch.setattr(Store, "prune", lambda *_: clock.take(10.0))
    run = trainer(Asynchronous(clock), train_steps=13, log_every=4)
    saving = SaveCheckpoints(run, Store(), every, keep_max=0)
    evaluating = Evaluate(run, lambda: clock.take(100.0) or {}, [], every=every)
    showing = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: reports.append(logs), on_train_end=lambda logs: reports.append(logs)
    )
    hooks = CallEpochHooks(run, [keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: clock.take(1000.0))], every)
    run.fit([showing, saving, evaluating, hooks, hooks.ending])
    assert [logs["tokens_per_second"] for logs in reports if logs] == [1.5] * 4


# === Evaluation ===


def evaluation(run, evaluate, store=None, metric="bleu", history=(), **options):
    best = BestTracker(store or Store(), metric, metric == "bleu", history)
    return Evaluate(run, evaluate, [best], **{"every": 1, **options})


def evaluated(scores, metric="bleu", train_steps=None, store=None, update=0, history=(), **options):
    """Fits with an evaluation after each update that gives `scores` in turn; returns (best, trainer, store)."""
    store = store or Store()
    run = trainer(train_steps=train_steps or len(scores), update=update)
    figures = iter(scores)
    best = BestTracker(store, metric, metric == "bleu", history)
    callback = Evaluate(run, lambda: {metric: next(figures)}, [best], **{"every": 1, **options})
    run.fit([SaveCheckpoints(run, store, every=1, keep_max=0), callback])
    return best, run, store


def test_the_best_is_marked_whenever_there_is_a_better_one():
    callback, _, store = evaluated([3.0, 5.0, 4.0, 6.0])
    assert store.marked == [(1, "bleu", 3.0), (2, "bleu", 5.0), (4, "bleu", 6.0)]
    assert callback.best() == (4, 6.0)


def test_lower_is_better_where_the_metric_says_so():
    _, _, store = evaluated([3.0, 5.0, 2.0], metric="teacher_forced/loss")
    assert [step for step, _, _ in store.marked] == [1, 3]


def test_of_equals_the_earliest_is_the_best():
    callback, _, store = evaluated([3.0, 3.0])
    assert callback.best() == (1, 3.0)
    assert len(store.marked) == 1


@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("metric", ["bleu", "teacher_forced/loss"])
def test_as_many_of_the_best_are_ranked_as_are_kept(keep, metric):
    store, scores = Store(), [3.0, 5.0, math.nan, 4.0, 5.0, 1.0]
    store.saved = dict.fromkeys(range(1, 7))
    tracker = BestTracker(store, metric, metric == "bleu", keep_best=keep)
    for update, score in enumerate(scores, 1):
        tracker.note(update, {metric: score})
        known = [entry for entry in enumerate(scores[:update], 1) if not math.isnan(entry[1])]
        known.sort(key=lambda entry: entry[1] if metric != "bleu" else -entry[1])  # stable: the earlier first
        wanted = [Best(step, metric, value) for step, value in known[:keep]]
        assert store.ranked == (wanted if keep > 1 else [])


def test_a_checkpoint_that_is_gone_is_not_ranked_and_of_one_update_the_later_value_counts():
    store = Store()
    store.saved = dict.fromkeys((1, 2, 4))
    history = [(1, 3.0), (2, 9.0), (3, 8.0), (2, 1.0), (4, 2.0), (5, 99.0)]
    tracker = BestTracker(store, "bleu", True, history, keep_best=2)
    tracker.forget_after(4)
    tracker.mark()
    assert [(one.step, one.value) for one in store.ranked] == [(1, 3.0), (4, 2.0)]


def test_a_run_that_keeps_one_from_now_on_lets_the_others_go():
    store = Store()
    store.saved, store.ranked = dict.fromkeys((1, 2)), [Best(1, "bleu", 3.0), Best(2, "bleu", 2.0)]
    BestTracker(store, "bleu", True, [(1, 3.0), (2, 2.0)]).mark()
    assert store.ranked == [Best(1, "bleu", 3.0)]


def test_with_another_figure_the_best_of_the_checkpoints_that_are_left_is_marked(tmp_path):
    """Update 1 has the best BLEU and is gone, since the loss decided until then."""
    store, array = CheckpointStore(tmp_path), np.ones(2, np.float32)
    by_loss, history = BestTracker(store, "loss", False), [(1, 30.0), (2, 10.0), (3, 20.0)]
    for update, loss in enumerate((3.0, 2.0, 2.5), 1):
        store.save(update, model={"a": array})
        store.prune(1)
        by_loss.note(update, {"loss": loss})
    assert (store.steps(), store.best()) == ([2, 3], Best(2, "loss", 2.0))
    tracker = BestTracker(store, "bleu", True, history)
    tracker.mark()
    assert store.best() == Best(3, "bleu", 20.0)
    for update, bleu, expected in [(4, 25.0, Best(4, "bleu", 25.0)), (5, 22.0, Best(4, "bleu", 25.0))]:
        store.save(update, model={"a": array})
        store.prune(1)
        tracker.note(update, {"bleu": bleu})
        assert store.best() == expected
    assert tracker.best() == (1, 30.0), "early stopping counts from there"


def test_without_an_evaluation_there_is_no_best():
    assert BestTracker(Store(), "bleu", True).best() is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("metric", ["bleu", "teacher_forced/loss"])
def test_what_is_not_finite_is_never_the_best(bad, metric):
    callback, _, store = evaluated([bad, 5.0, bad], metric=metric)
    assert (callback.best(), store.marked) == ((2, 5.0), [(2, metric, 5.0)])


def test_a_run_whose_figure_is_never_finite_stops_too(caplog):
    caplog.set_level("INFO", logger="t2t")
    _, run, store = evaluated([math.nan] * 9, patience=3)
    assert (run.update, store.marked) == (4, [])
    assert caplog.messages == ["early stopping at update 4: bleu has not improved on nan for 3 updates"]
    _, run, _ = evaluated([math.nan] * 9, update=2, train_steps=9, history=[(1, math.nan), (2, math.nan)], patience=3)
    assert run.update == 4


def test_a_run_that_no_longer_improves_stops():
    _, run, _ = evaluated([3.0, 5.0, 4.0, 4.0, 9.0, 9.0], patience=2)
    assert run.update == 4


def test_history_of_an_earlier_process_counts_for_best_and_patience():
    store = Store()
    store.saved = {1: {}, 2: {}}
    history = [(1, 8.0), (2, 5.0)]
    _, run, store = evaluated([4.0] * 9, update=2, train_steps=9, store=store, history=history, patience=4)
    assert store.marked == [(1, "bleu", 8.0)]
    assert run.update == 5


def test_history_after_where_a_run_goes_on_is_forgotten():
    callback, _, _ = evaluated([4.0], update=2, train_steps=3, history=[(2, 5.0), (3, 99.0)])
    assert callback.best() == (2, 5.0)


def test_an_evaluation_that_a_crash_has_lost_is_made_up_for():
    store = Store()
    store.saved[2] = {}
    callback, _, store = evaluated([7.0, 4.0], update=2, train_steps=3, store=store, history=[(1, 3.0)])
    assert callback.best() == (2, 7.0)
    assert store.marked == [(2, "bleu", 7.0)]


def test_the_last_evaluation_that_a_crash_has_lost_is_made_up_for():
    store = Store()
    store.saved[3] = {}
    callback, run, store = evaluated([7.0], update=3, train_steps=3, store=store, history=[(1, 3.0)])
    assert (run.update, callback.best(), store.marked) == (3, (3, 7.0), [(3, "bleu", 7.0)])


def test_a_mark_of_the_best_that_a_crash_has_lost_is_made_again():
    store = Store()
    store.saved[2] = {}
    _, _, store = evaluated([1.0], update=2, train_steps=3, store=store, history=[(1, 3.0), (2, 5.0)])
    assert store.marked == [(2, "bleu", 5.0)]


def test_patience_is_counted_to_the_last_evaluation_wherever_a_run_goes_on():
    store = Store()
    run = trainer(update=260, train_steps=263)
    history = [(100, 0.5), (200, 0.4)]
    again = lambda: {"bleu": 0.1}  # noqa: E731
    run.fit([evaluation(run, again, store, every=100, patience=150, history=history)])
    assert run.update == 263


def test_an_evaluation_that_is_there_is_not_repeated():
    evaluated([4.0], update=2, train_steps=3, history=[(2, 5.0)])  # a second evaluation would run out of scores


def test_an_interrupted_run_is_not_evaluated_at_its_end():
    class Stopped(Step):
        def __call__(self, *args):
            self.model.stop_training = True
            return super().__call__(*args)

    run = trainer(Stopped(), train_steps=9)
    run.fit([evaluation(run, lambda: pytest.fail("evaluated"), every=5)])
    assert run.update == 1


def test_a_signal_breaks_an_evaluation_off():
    @contextlib.contextmanager
    def interrupted():
        raise StopRequestedError
        yield

    run = trainer(train_steps=9)
    heard = []
    run.fit(
        [evaluation(run, dict, every=2, interruptible=interrupted, listeners=[lambda *figures: heard.append(figures)])]
    )
    assert (run.update, heard) == (2, [])


def test_listeners_hear_every_figure():
    heard = []
    evaluated([3.0, 5.0], listeners=[lambda update, figures: heard.append((update, figures))])
    assert heard == [(1, {"bleu": 3.0}), (2, {"bleu": 5.0})]


# === What is shown and written ===


def test_lines_where_there_is_no_terminal():
    out, run = io.StringIO(), trainer(train_steps=2)
    shown = ShowProgress(run, out)
    run.fit([shown])
    shown.show_evaluation(2, {"teacher_forced/loss": 1.25, "bleu": 30.126})
    update, evaluation = out.getvalue().splitlines()
    assert update.startswith("update 2/2  loss 2.000  ")
    assert update.endswith(" target tokens/s  lr 2.00e-02  3 target tokens/update  0:00:00 left")
    assert evaluation == "dev at update 2: bleu 30.13 (real decodes); loss 1.25 (teacher-forced)"


@pytest.mark.parametrize(("bad", "said"), [((1,), "1 update"), ((1, 2), "2 updates")])
def test_updates_lost_to_float16_are_told_in_every_line(bad, said):
    out, run = io.StringIO(), trainer(Step(bad=bad, scale=4.0), train_steps=4)
    run.fit([ShowProgress(run, out)])
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert f"  {said} skipped so far: gradients overflowed float16  " in line


def test_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out, run = Terminal(), trainer(train_steps=4, update=2)
    shown = ShowProgress(run, out)
    run.fit([shown])
    assert "training" in out.getvalue()
    assert "4/4" in out.getvalue()
    assert "loss 2.000" in out.getvalue()
    shown.line("a line after it")
    assert out.getvalue().endswith("a line after it\n")


def test_the_bar_shows_the_curve_of_losses_and_the_last_score():
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    out, run = Terminal(), trainer(train_steps=4)
    shown = ShowProgress(run, out)
    shown.on_train_begin()
    shown._progress._bar.ncols, shown._progress._bar.dynamic_ncols = 200, False
    shown.show_evaluation(2, {"teacher_forced/loss": 1.25, "bleu": 30.126})
    for update, loss in ((1, 4.0), (2, 3.0), (3, 1.0)):
        logs = {"loss": loss, "tokens_per_second": 5.0, "learning_rate": 0.1, "tokens_per_update": 3.0}
        shown.on_train_batch_end(update, logs)
    last = out.getvalue().split("\r")[-1]
    assert "loss 1.000 █▆▁, dev bleu 30.13, 5 target tokens/s" in last


def test_figures_are_kept_as_lines_and_as_events(tmp_path):
    lines, run = [], trainer(train_steps=4)
    metrics = LogMetrics(lambda update, figures: lines.append((update, figures)), tmp_path)
    run.fit([metrics])
    metrics.write_evaluation(4, {"bleu": 3.0})
    assert [update for update, _ in lines] == [2, 4, 4]
    assert {"train/loss", "train/learning_rate", "train/tokens_per_second"} <= set(lines[0][1])
    assert lines[2][1] == {"dev/bleu": 3.0}
    assert json.dumps(lines[0][1])
    for group, tag in (("train", b"grad_norm"), ("dev", b"bleu")):
        (events,) = (tmp_path / group).iterdir()
        assert tag in events.read_bytes()


def test_events_that_cannot_be_written_are_one_line(tmp_path):
    (tmp_path / "events").write_text("")
    with pytest.raises(
        MachineError,
        match=r"^cannot write TensorBoard events in .*: \S*events is not a directory; free some space there, get write "
        r"permission or move what is in the way, and run the same command again$",
    ):
        LogMetrics(lambda update, figures: None, tmp_path / "events").write("train", 1, {"loss": 1.0})


def test_figures_beyond_floats_are_kept_too(tmp_path):
    metrics = LogMetrics(lambda *_: None, tmp_path)
    metrics.write_evaluation(4, {"beyond float32": 1e300, "infinite": math.inf, "none": math.nan})
    metrics.on_train_end()
    (events,) = (tmp_path / "dev").iterdir()
    assert all(name in events.read_bytes() for name in (b"beyond float32", b"infinite", b"none"))


# === Signals ===


class SendSignal(Step):
    """Sends this process a signal during an update."""

    def __init__(self, number, update):
        super().__init__()
        self.number, self.update = number, update

    def __call__(self, micro_batches, update, rate, problem="", stops=False):
        if update == self.update:
            os.kill(os.getpid(), self.number)
        return super().__call__(micro_batches, update, rate)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_training_after_the_update_and_is_given_back(number):
    before = signal.signal(number, signal.SIG_DFL)  # the tests may run under nohup
    try:
        signals, run = StopOnSignal(), trainer(SendSignal(number, 2), train_steps=9)
        run.fit([signals])
        assert (run.update, signals.received) == (2, number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_ends_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        signals, run = StopOnSignal(), trainer(SendSignal(signal.SIGHUP, 2), train_steps=3)
        run.fit([signals])
        assert (run.update, signals.received) == (3, None)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_training_in_another_thread_leaves_signals_alone():
    before = signal.getsignal(signal.SIGTERM)
    run = trainer(train_steps=3)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run.fit, [StopOnSignal()]).result()
    assert run.update == 3
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_interrupt_interrupts_at_once():
    before = signal.getsignal(signal.SIGINT)
    signals = StopOnSignal()
    signals.take_over()
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    signals.release()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_that_a_library_swallows_breaks_off_what_is_interruptible_all_the_same():
    signals = StopOnSignal()

    def fail():
        with contextlib.suppress(Exception):
            os.kill(os.getpid(), signal.SIGTERM)
        raise ValueError("None values not supported.")

    signals.take_over()
    try:
        with pytest.raises(StopRequestedError) as raised, signals.interruptible():
            fail()
        assert isinstance(raised.value.__cause__, ValueError)
    finally:
        signals.release()
    with pytest.raises(ValueError, match="of its own"), StopOnSignal().interruptible():
        raise ValueError("of its own")


def test_a_signal_breaks_off_what_is_interruptible_and_only_that():
    signals = StopOnSignal()
    signals.take_over()
    try:
        with pytest.raises(StopRequestedError), signals.interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(StopRequestedError), signals.interruptible():
            pytest.fail("begun although a signal had come")
    finally:
        signals.release()
    assert signals.received == signal.SIGTERM
