"""Checks the caller's Keras callbacks: one that would do nothing, or break exact resuming, is refused."""

import logging
from collections.abc import Sequence
from typing import Any

import keras

from t2t.errors import ArgumentError

log = logging.getLogger("t2t")

_CHECKPOINTS = (
    "training saves checkpoints itself, which t2t.load takes; set local_eval_frequency and keep_checkpoint_max"
)
_RATES = "the learning rate is a function of the update's number; set the hparam learning_rate_schedule"
_REFUSED = {
    "BackupAndRestore": "training saves its whole state itself, and the same call resumes; leave it out",
    "LearningRateScheduler": _RATES,
    "OrbaxCheckpoint": _CHECKPOINTS,
    "ProgbarLogger": "training shows its progress itself; leave it out",
    "ReduceLROnPlateau": _RATES,
    "SwapEMAWeights": "moving averages are kept and evaluated where the hparam ema_decay is set; set that",
    "TensorBoard": "training writes events for TensorBoard itself, in events/ in the folder of the run; leave it out",
}
"""Name of a Keras callback -> why it cannot work, and what to do instead."""

_NOT_CALLED = ("on_test_batch_begin", "on_test_batch_end")


def checked_callbacks(callbacks: Any) -> list[keras.callbacks.Callback]:
    """Returns one callback, several or None as a list.

    Raises:
        ArgumentError: something that is not a Keras callback, or one that cannot work.
    """
    if callbacks is None or isinstance(callbacks, keras.callbacks.Callback):
        callbacks = [callbacks] if callbacks else []
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise ArgumentError("it is not a list of Keras callbacks", "give one", option="callbacks", value=callbacks)
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            cure = "call the class" if isinstance(callback, type) else "derive its class from keras.callbacks.Callback"
            raise ArgumentError(f"callbacks: {callback!r} is not a Keras callback", cure)
        if reason := _reason_against(callback):
            raise ArgumentError(f"callbacks: {type(callback).__name__} cannot work here: {reason}")
        if any(_overrides(callback, hook) for hook in _NOT_CALLED):
            log.warning("%s: %s are not called", type(callback).__name__, " and ".join(_NOT_CALLED))
    return list(callbacks)


def _reason_against(callback: keras.callbacks.Callback) -> str:
    """Returns why a callback cannot work, and what to use instead; empty if it can."""
    for name, reason in _REFUSED.items():
        if isinstance(callback, getattr(keras.callbacks, name, ())):
            return reason
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        if not callback.save_weights_only:
            return f"it saves whole models; {_CHECKPOINTS}, or give it save_weights_only=True"
        if callback.save_freq != "epoch":
            return "save_freq counts batches; leave it at 'epoch', and set local_eval_frequency"
    if isinstance(callback, keras.callbacks.EarlyStopping) and callback.restore_best_weights:
        return "restore_best_weights does not reach the run; leave it out, and load the best by t2t.load(run, 'best')"
    monitored = getattr(callback, "monitor", "val_loss")
    if getattr(callback, "mode", "") == "auto" and monitored not in ("loss", "val_loss"):
        return f"Keras cannot tell whether more of monitor={monitored!r} is better; give it mode='max' or mode='min'"
    return ""


def _overrides(callback: keras.callbacks.Callback, hook: str) -> bool:
    return getattr(getattr(callback, hook), "__func__", None) is not getattr(keras.callbacks.Callback, hook)
