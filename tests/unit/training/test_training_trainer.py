import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_fakes import Step, trainer

from t2t.errors import MachineError
from t2t.training.trainer import DivergedError
from tests.errors import refused


class Recorder(keras.callbacks.Callback):
    def __init__(self, stop_at=None):
        super().__init__()
        self.heard, self.stop_at = [], stop_at

    def on_train_begin(self, logs=None):
        self.heard.append(("begin", None))

    def on_train_batch_begin(self, batch, logs=None):
        self.heard.append((f"before {batch}", None))

    def on_train_batch_end(self, batch, logs=None):
        self.heard.append((f"after {batch}", logs))
        if batch == self.stop_at:
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self.heard.append(("end", logs))


def test_callbacks_hear_every_update_and_get_figures_at_log_steps_only():
    recorder = Recorder()
    assert trainer(train_steps=3).fit([recorder]) == 3
    assert [name for name, _ in recorder.heard] == [
        "begin", "before 0", "after 1", "before 1", "after 2", "before 2", "after 3", "end",
    ]  # fmt: skip
    with_figures = {name for name, logs in recorder.heard if logs}
    assert with_figures == {"after 2", "end"}  # the third update is reported at the end


def test_batches_go_to_replicas_then_to_micro_batches_in_the_global_order():
    step = Step(replicas=2)
    run = trainer(step, train_steps=2, micro_batches=2)
    run.fit([])
    assert step.given == [(1, 0.01, [[1, 2], [3, 4]]), (2, 0.02, [[5, 6], [7, 8]])]
    assert run.data_state == {"batch": 8}


def test_a_resumed_trainer_goes_on_with_the_next_update_until_a_callback_ends_it():
    step = Step()
    assert trainer(step, train_steps=9, update=2).fit([Recorder(stop_at=4)]) == 4
    assert [update for update, _, _ in step.given] == [3, 4]


def test_callbacks_that_ask_for_it_hear_of_an_error():
    class Listener(Recorder):
        def on_train_error(self):
            self.heard.append(("error", None))

    class Breaks(Recorder):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyError

    listener, plain = Listener(), Recorder()
    with pytest.raises(KeyError):
        trainer().fit([listener, Breaks(), plain])
    assert [name for name, _ in listener.heard] == ["begin", "before 0", "after 1", "error"]
    assert [name for name, _ in plain.heard] == ["begin", "before 0"]
    trainer(train_steps=1).fit([finished := Listener()])
    assert finished.heard[-1][0] == "end"


def test_a_report_by_hand():
    """Two updates of loss 6 over 3 tokens in batches of 2 x 3 padded target tokens."""
    run = trainer(train_steps=2, log_every=10)
    recorder = Recorder()
    run.fit([recorder])
    logs = recorder.heard[-1][1]
    assert logs.pop("tokens_per_second") > 0
    assert logs == {"loss": 2.0, "tokens_per_update": 3.0, "padding": 0.5, "learning_rate": 0.02, "grad_norm": 1.0}


# === What ends a run ===


def test_what_is_not_finite_is_named_at_the_next_log_step():
    run = trainer(Step(bad=(3, 4)), train_steps=9, log_every=5)
    with refused(3, "nan", 1.5, "learning_rate_warmup_steps", "--warm_start_from", by=DivergedError):
        run.fit([])
    assert run.update == 5


def test_with_float16_an_overflow_is_counted_and_an_error_only_at_the_smallest_scale(caplog):
    caplog.set_level("INFO", logger="t2t")
    run = trainer(Step(bad=(3, 4, 8), scale=8.0), train_steps=10)
    recorder = Recorder()
    assert run.fit([recorder]) == 10
    reports = [logs for _, logs in recorder.heard if logs]
    assert [logs["skipped_updates"] for logs in reports] == [0, 2, 2, 3, 3]
    # Of an update that was skipped, neither loss nor norm counts; in the second report, there is no other.
    assert [logs["loss"] for logs in reports] == [2.0, pytest.approx(math.nan, nan_ok=True), 2.0, 2.0, 2.0]
    assert [logs["grad_norm"] for logs in reports if logs["loss"] == 2.0] == [1.0, 3.0, 3.5, 5.0]
    assert [re.findall(r"\d+", message) for message in caplog.messages] == [["3", "4", "16", "2"], ["8", "16", "1"]]
    with refused(3, "float16", "precision=mixed_bfloat16", by=DivergedError):
        trainer(Step(bad=(3,), scale=1.0)).fit([])


@pytest.mark.parametrize("scale", [None, 2.0])
def test_an_update_of_padding_alone_is_named(scale):
    with refused(3, "padding,", "encode_samples", by=DivergedError):
        trainer(Step(empty=(3,), scale=scale), train_steps=9).fit([])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_named(bad):
    run = trainer(update=7)
    run.check_weights({"a": np.ones(3, np.float32), "b": np.zeros(2)})
    with refused(7, "b", by=DivergedError):
        run.check_weights({"a": np.ones(3, np.float32), "b": np.array([0.0, bad])})


class Fails(Step):
    """A step that raises an error in place of an update."""

    def __init__(self, error):
        super().__init__()
        self._error = error

    def __call__(self, *args):
        raise self._error

    warm_up = __call__


@pytest.mark.parametrize("error", [tf.errors.ResourceExhaustedError(None, None, "OOM"), MemoryError()])
@pytest.mark.parametrize("where", ["update", "rehearsal"])
def test_running_out_of_memory_says_of_what_and_what_to_do(error, where):
    run = trainer(Fails(error))
    batch = {"inputs": np.ones((2, 4), np.int32), "targets": np.ones((2, 3), np.int32)}
    with refused("inputs", "4),", "targets", "3)", "batch_size", "effective_batch_size", by=MachineError):
        run.fit([]) if where == "update" else run.warm_up([batch])


def test_other_errors_pass_as_they_are():
    with pytest.raises(ZeroDivisionError):
        trainer(Fails(ZeroDivisionError())).fit([])


def test_rehearsal_runs_every_batch_on_every_replica_and_counts_for_nothing():
    step = Step(replicas=2)
    run = trainer(step)
    batch = {"targets": np.ones((2, 3), np.int32)}
    run.warm_up([batch, batch])
    assert step.rehearsed == [[[batch, batch]] * min(run.plan.micro_batches, 2)] * 2
    assert (run.update, run.data_state, step.given) == (0, {"batch": 0}, [])
