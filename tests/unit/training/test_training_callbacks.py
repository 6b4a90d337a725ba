import contextlib
import io
import json
import math
import signal
import types
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from t2t.backends.workers import WorkerLostError
from t2t.checkpoints.layout import Best
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import MachineError
from t2t.runs.training import TrainingRun
from t2t.training.callbacks.checkpoints import BestTracker, SaveCheckpoints
from t2t.training.callbacks.epochs import CallEpochHooks
from t2t.training.callbacks.evaluation import Evaluate
from t2t.training.callbacks.metrics_log import LogMetrics
from t2t.training.callbacks.progress import EstimateTime, ShowProgress
from t2t.training.callbacks.signals import StopOnSignal, StopRequestedError
from t2t.training.trainer import DivergedError
from tests.errors import refused
from tests.unit.training.training_fakes import Step, Weight, trainer


class Store:
    """Remembers what was saved and which was best."""

    def __init__(self, *steps):
        self.saved, self.pruned, self.marked, self.ranked = dict.fromkeys(steps), [], [], []

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


# === Checkpoints ===
@pytest.mark.parametrize(
    ("train_steps", "update", "keep_max", "saved"), [(5, 0, 3, [2, 4, 5]), (4, 0, 0, [2, 4]), (4, 4, 0, [])]
)
def test_saves_every_so_often_and_the_last_once_and_not_where_a_run_begins(train_steps, update, keep_max, saved):
    store, run = Store(), trainer(train_steps=train_steps, update=update)
    run.fit([SaveCheckpoints(run, store, every=2, keep_max=keep_max, state={"seed": 7})])
    assert list(store.saved) == saved
    assert store.pruned == [keep_max] * len(saved)
    for step, arrays in store.saved.items():
        assert arrays == {
            "model": {"weight": [1.0]}, "optimizer": {"slot": [2.0]}, "ema": None,
            "state": {"seed": 7, "data": {"batch": step}},
        }  # fmt: skip


def test_what_diverged_is_not_saved():
    store, run = Store(), trainer(Step(bad=(4,)), train_steps=9, log_every=100)
    with refused("4", by=DivergedError):
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
def test_every_worker_finds_at_a_checkpoint_that_a_run_diverged(is_chief, train_steps, every, spoilt):
    """At a checkpoint between two log steps, or at the end of a run."""
    run = trainer(Step(bad=(2,) if spoilt == "an update" else ()), train_steps=train_steps, log_every=100)
    if spoilt == "the weights":
        run.step.saved.append(Weight("a", math.nan))
    store, workers = Store(), OtherWorkers(is_chief)

    def evaluation_callback(*_):
        return Evaluate(run, dict, [], every=every, agree=lambda due: bool(workers.gather([int(due)])[0, 0]))

    fit = types.SimpleNamespace(workers=workers, config=types.SimpleNamespace(local_eval_frequency=every))
    fit._evaluation_callback = evaluation_callback
    fit._chief_callbacks = lambda *_: [SaveCheckpoints(run, store, every, keep_max=0), evaluation_callback()]
    callbacks = TrainingRun._all_callbacks(fit, run, store, StopOnSignal(), object(), ())
    with refused(
        *(["update", "2", "nan"] if spoilt == "an update" else [min(every, train_steps), "a"]), by=DivergedError
    ):
        run.fit(callbacks)
    assert (run.update, store.saved) == (min(every, train_steps), {})


class Clock:
    """Simulated time in seconds, and a device that needs 2 s for each update and runs them one after the other."""

    def __init__(self):
        self.now = self.free = 0.0

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
def test_the_time_of_updates_counts_and_that_of_saving_and_evaluating_does_not(every):
    """Updates of 3 tokens, 2 s each; a checkpoint takes 10 s, an evaluation 100 s, a hook 1,000 s."""
    clock, reports = Clock(), []

    class SlowStore(Store):
        def prune(self, keep):
            clock.take(10.0)

    run = trainer(Asynchronous(clock), train_steps=13, log_every=4, clock=lambda: clock.now)
    saving = SaveCheckpoints(run, SlowStore(), every, keep_max=0)
    evaluating = Evaluate(run, lambda: clock.take(100.0) or {}, [], every=every)
    showing = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: reports.append(logs), on_train_end=lambda logs: reports.append(logs)
    )
    hooks = CallEpochHooks(run, [keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: clock.take(1000.0))], every)
    run.fit([showing, saving, evaluating, hooks, hooks.ending])
    assert [logs["tokens_per_second"] for logs in reports if logs] == [1.5] * 4


@pytest.mark.parametrize(("update", "last", "said"), [
    (0, 91, ["about 3 min for 91 updates "]), (10, 40, ["about 60 s for the remaining 30 updates "]), (0, 2, []),
])  # fmt: skip
def test_how_long_training_takes_is_said_once_the_first_updates_are_timed(update, last, said):
    """Updates of 2 s each; the first one waits 100 s for its batches, another is held up for 50 s."""
    clock, lines, waits = Clock(), [], {update: 100.0, update + 2: 50.0}
    run = trainer(Asynchronous(clock), train_steps=last, update=update, clock=lambda: clock.now)
    waiting = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: clock.take(waits.get(batch, 0.0)))
    estimate = EstimateTime(run, True, lambda: "1 GiB", lines.append, clock=lambda: clock.now, least_seconds=55.0)
    run.fit([estimate, waiting])
    assert [line[line.index("about") :] for line in lines] == [f"{one}here, without evaluations; 1 GiB" for one in said]


# === Evaluation ===
def evaluated(scores, metric="bleu", train_steps=None, saved=(), update=0, history=(), step=None, **options):
    """Fits with an evaluation after each update that gives `scores` in turn; returns (tracker, trainer, store)."""
    store, figures = Store(*saved), iter(scores)
    run = trainer(step, train_steps=train_steps or len(scores), update=update)
    tracker = BestTracker(store, metric, metric == "bleu", history)
    callback = Evaluate(run, lambda: {metric: next(figures)}, [tracker], **{"every": 1, **options})
    run.fit([SaveCheckpoints(run, store, every=1, keep_max=0), callback])
    return tracker, run, store


LOSS = "teacher_forced/loss"
RUNS = {
    "a better one is marked": ([3, 5, 4, 6], {}, {"best": (4, 6), "marked": [(1, 3), (2, 5), (4, 6)]}),
    "lower is better": ([3, 5, 2], {"metric": LOSS}, {"best": (3, 2), "marked": [(1, 3), (3, 2)]}),
    "of equals the earliest": ([3, 3], {}, {"best": (1, 3), "marked": [(1, 3)]}),
    **{
        f"{bad} is never the best {metric}": (
            [bad, 5, bad], {"metric": metric}, {"best": (2, 5), "marked": [(2, 5)]}
        )
        for bad in (math.nan, math.inf, -math.inf) for metric in ("bleu", LOSS)
    },
    "what is never finite stops, too": ([math.nan] * 9, {"patience": 3}, {"update": 4, "marked": []}),
    "what was never finite stops, too": (
        [math.nan] * 9, {"update": 2, "train_steps": 9, "history": [(1, math.nan), (2, math.nan)], "patience": 3},
        {"update": 4},
    ),
    "what no longer improves stops": ([3, 5, 4, 4, 9, 9], {"patience": 2}, {"update": 4}),
    "history counts for best and patience": (
        [4] * 9, {"update": 2, "train_steps": 9, "saved": (1, 2), "history": [(1, 8), (2, 5)], "patience": 4},
        {"update": 5, "marked": [(1, 8)]},
    ),
    "history after where a run goes on is forgotten": (
        [4], {"update": 2, "train_steps": 3, "history": [(2, 5), (3, 99)]}, {"best": (2, 5)},
    ),
    "an evaluation that a crash has lost is made up for": (
        [7, 4], {"update": 2, "train_steps": 3, "saved": (2,), "history": [(1, 3)]},
        {"best": (2, 7), "marked": [(2, 7)]},
    ),
    "the last evaluation that a crash has lost is made up for": (
        [7], {"update": 3, "train_steps": 3, "saved": (3,), "history": [(1, 3)]},
        {"update": 3, "best": (3, 7), "marked": [(3, 7)]},
    ),
    "a mark that a crash has lost is made again": (
        [1], {"update": 2, "train_steps": 3, "saved": (2,), "history": [(1, 3), (2, 5)]}, {"marked": [(2, 5)]},
    ),
    "an evaluation that is there is not repeated": ([4], {"update": 2, "train_steps": 3, "history": [(2, 5)]}, {}),
    "patience is counted to the last evaluation": (
        [0.1], {"update": 260, "train_steps": 263, "every": 100, "patience": 150, "history": [(100, 0.5), (200, 0.4)]},
        {"update": 263},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "given", "expected"), RUNS.values(), ids=RUNS)
def test_the_best_is_marked_and_what_no_longer_improves_stops(scores, given, expected):
    """A second evaluation where none is due would run out of scores."""
    tracker, run, store = evaluated(scores, **given)
    marked = [(step, value) for step, metric, value in store.marked if metric == given.get("metric", "bleu")]
    found = {"update": run.update, "best": tracker.best(), "marked": marked}
    assert {name: found[name] for name in expected} == expected


def test_early_stopping_is_told_once(caplog):
    caplog.set_level("INFO", logger="t2t")
    evaluated([math.nan] * 9, patience=3)
    (message,) = caplog.messages
    assert message.startswith("early stopping at update 4: bleu ")


def test_an_interrupted_run_is_not_evaluated_at_its_end_nor_one_whose_evaluation_a_signal_breaks_off():
    class Stopped(Step):
        def __call__(self, *args):
            self.model.stop_training = True
            return super().__call__(*args)

    @contextlib.contextmanager
    def interrupted():
        raise StopRequestedError
        yield

    heard = []
    given = {"listeners": [lambda *figures: heard.append(figures)], "train_steps": 9}
    assert evaluated([], step=Stopped(), every=5, **given)[1].update == 1
    assert evaluated([], every=2, interruptible=interrupted, **given)[1].update == 2
    assert heard == []
    evaluated([3.0, 5.0], **given | {"train_steps": 2})
    assert heard == [(1, {"bleu": 3.0}), (2, {"bleu": 5.0})]


@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("metric", ["bleu", LOSS])
def test_as_many_of_the_best_are_ranked_as_are_kept(keep, metric):
    store, scores = Store(*range(1, 7)), [3.0, 5.0, math.nan, 4.0, 5.0, 1.0]
    tracker = BestTracker(store, metric, metric == "bleu", keep_best=keep)
    for update, score in enumerate(scores, 1):
        tracker.note(update, {metric: score})
        known = [entry for entry in enumerate(scores[:update], 1) if not math.isnan(entry[1])]
        known.sort(key=lambda entry: entry[1] if metric != "bleu" else -entry[1])  # stable: the earlier first
        wanted = [Best(step, metric, value) for step, value in known[:keep]]
        assert store.ranked == (wanted if keep > 1 else [])


def test_a_checkpoint_that_is_gone_is_not_ranked_and_of_one_update_the_later_value_counts():
    store, history = Store(1, 2, 4), [(1, 3.0), (2, 9.0), (3, 8.0), (2, 1.0), (4, 2.0), (5, 99.0)]
    tracker = BestTracker(store, "bleu", True, history, keep_best=2)
    tracker.forget_after(4)
    tracker.mark()
    assert [(one.step, one.value) for one in store.ranked] == [(1, 3.0), (4, 2.0)]
    BestTracker(store, "bleu", True, [(1, 3.0), (4, 2.0)]).mark()  # keeps one from now on
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
    assert BestTracker(Store(), "bleu", True).best() is None, "without an evaluation"


# === What is shown and written ===
class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def shown(out, step=None, **given):
    """Trains with a display; returns the display."""
    run = trainer(step, **given)
    display = ShowProgress(run, out)
    run.fit([display])
    return display


def test_lines_where_there_is_no_terminal():
    out = io.StringIO()
    shown(out, train_steps=2).show_evaluation(2, {LOSS: 1.25, "bleu": 30.126})
    update, evaluation = out.getvalue().splitlines()
    assert update.startswith("update 2/2  loss 2.000  ")
    assert update.endswith(" target tokens/s  lr 2.00e-02  3 target tokens/update  0:00:00 left")
    assert evaluation == "dev at update 2: bleu 30.13 (real decodes); loss 1.25 (teacher-forced)"


@pytest.mark.parametrize(("bad", "said"), [((1,), "1 update"), ((1, 2), "2 updates")])
def test_updates_lost_to_float16_are_told_in_every_line(bad, said):
    out = io.StringIO()
    shown(out, Step(bad=bad, scale=4.0), train_steps=4)
    assert [f"  {said} skipped so far: " in line for line in out.getvalue().splitlines()] == [True, True]


def test_a_bar_on_a_terminal():
    out = Terminal()
    display = shown(out, train_steps=4, update=2)
    assert all(text in out.getvalue() for text in ("training", "4/4", "loss 2.000"))
    display.line("a line after it")
    assert out.getvalue().endswith("a line after it\n")


def test_the_bar_shows_the_curve_of_losses_and_the_last_score():
    out = Terminal()
    display = ShowProgress(trainer(train_steps=4), out)
    display.on_train_begin()
    display._progress._bar.ncols, display._progress._bar.dynamic_ncols = 200, False
    display.show_evaluation(2, {LOSS: 1.25, "bleu": 30.126})
    for update, loss in ((1, 4.0), (2, 3.0), (3, 1.0)):
        logs = {"loss": loss, "tokens_per_second": 5.0, "learning_rate": 0.1, "tokens_per_update": 3.0}
        display.on_train_batch_end(update, logs)
    last = out.getvalue().split("\r")[-1]
    assert "loss 1.000 █▆▁, dev bleu 30.13, 5 target tokens/s" in last


def test_figures_are_kept_as_lines_and_as_events_even_those_beyond_floats(tmp_path):
    lines, run = [], trainer(train_steps=4)
    metrics = LogMetrics(lambda update, figures: lines.append((update, figures)), tmp_path)
    run.fit([metrics])
    beyond = {"bleu": 3.0, "beyond float32": 1e300, "infinite": math.inf, "none": math.nan}
    metrics.write_evaluation(4, beyond)
    metrics.on_train_end()
    assert [update for update, _ in lines] == [2, 4, 4]
    assert {"train/loss", "train/learning_rate", "train/tokens_per_second"} <= set(lines[0][1])
    assert lines[2][1]["dev/bleu"] == 3.0
    assert json.dumps(lines[0][1])
    for group, tags in (("train", ["grad_norm"]), ("dev", beyond)):
        (events,) = (tmp_path / group).iterdir()
        assert all(tag.encode() in events.read_bytes() for tag in tags)


def test_events_that_cannot_be_written_are_one_line(tmp_path):
    (tmp_path / "events").write_text("")
    with refused(tmp_path / "events", by=MachineError):
        LogMetrics(lambda update, figures: None, tmp_path / "events").write("train", 1, {"loss": 1.0})


# === Signals ===
@pytest.fixture(autouse=True)
def handlers():
    """The default handlers of signals, although the tests may run under nohup; those before come back at the end."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class SendSignal(Step):
    """Sends this process a signal during the second update."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def __call__(self, micro_batches, update, rate, problem="", stops=False):
        if update == 2:
            signal.raise_signal(self.number)
        return super().__call__(micro_batches, update, rate)


@pytest.mark.parametrize(
    ("number", "is_ignored"),
    [(signal.SIGTERM, False), (signal.SIGHUP, False), (signal.SIGINT, False), (signal.SIGHUP, True)],
)
def test_a_signal_ends_training_after_the_update_unless_it_is_ignored_as_by_nohup(number, is_ignored):
    if is_ignored:
        signal.signal(number, signal.SIG_IGN)
    before = signal.getsignal(number)
    signals, run = StopOnSignal(), trainer(SendSignal(number), train_steps=3)
    run.fit([signals])
    assert (run.update, signals.received) == ((3, None) if is_ignored else (2, number))
    assert signal.getsignal(number) is before


def test_training_in_another_thread_leaves_signals_alone():
    before = signal.getsignal(signal.SIGTERM)
    run = trainer(train_steps=3)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run.fit, [StopOnSignal()]).result()
    assert run.update == 3
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def signals():
    """Has taken over signals, and gives them back at the end."""
    signals = StopOnSignal()
    signals.take_over()
    yield signals
    signals.release()


def test_a_second_interrupt_interrupts_at_once(signals):
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_breaks_off_what_is_interruptible_even_if_a_library_swallows_it(signals):
    def fail():
        with contextlib.suppress(Exception):
            signal.raise_signal(signal.SIGTERM)
        raise ValueError("None values not supported.")

    with pytest.raises(StopRequestedError) as raised, signals.interruptible():
        fail()
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(ValueError), StopOnSignal().interruptible():
        raise ValueError("of its own")


def test_a_signal_breaks_off_what_is_interruptible_and_only_that(signals):
    with pytest.raises(StopRequestedError), signals.interruptible():
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(StopRequestedError), signals.interruptible():
        pytest.fail("begun although a signal had come")
    assert signals.received == signal.SIGTERM
