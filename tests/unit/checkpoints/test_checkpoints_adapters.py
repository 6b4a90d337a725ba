"""Checkpoints of adapters: merging checked by hand, and damaged checkpoints."""

import numpy as np
import pytest

from t2t.checkpoints.adapters import AdapterBase, merge_adapters
from t2t.checkpoints.checkpoint import DamagedCheckpointError
from t2t.checkpoints.store import CheckpointStore
from tests.errors import refused

WEIGHTS = {"m/kernel": np.array([[1, 2], [3, 4]], np.float32), "m/bias": np.array([5, 6], np.float32)}
A, B = np.array([[1], [2]], np.float32), np.array([[10, 100]], np.float32)
MERGED = [[1 + 0.5 * 10, 2 + 0.5 * 100], [3 + 0.5 * 20, 4 + 0.5 * 200]]


@pytest.fixture
def store(tmp_path):
    """Checkpoints of adapters of the weights above, which are in `base`."""
    store = CheckpointStore(tmp_path / "run/checkpoints")
    save(store, {"m/kernel/lora_a": A, "m/kernel/lora_b": B}, base_in(tmp_path / "base").to_state())
    return store


def base_in(folder):
    store = CheckpointStore(folder)
    store.save(7, model=WEIGHTS)
    return AdapterBase.from_checkpoint(store.load(), 0.5)


def save(store, factors, state, step=3, **parts):
    store.save(step, model=factors, state={"seed": 1, **state}, **parts)


def test_factors_are_multiplied_and_added_by_hand_also_of_several_matrices(store):
    found = store.load_model()
    assert found.step == 3
    assert found.weights.keys() == WEIGHTS.keys()
    assert found.weights["m/kernel"].tolist() == MERGED
    assert found.weights["m/kernel"].dtype == np.float32
    assert found.weights["m/bias"].tolist() == [5, 6]
    weights = {"experts": np.zeros((2, 2, 2), np.float32)}
    found = merge_adapters(weights, {"experts/lora_a": np.stack([A, -A]), "experts/lora_b": np.stack([B, 2 * B])}, 1.0)
    assert found["experts"].tolist() == [[[10, 100], [20, 200]], [[-20, -200], [-40, -400]]]


def test_averages_and_adapters_of_adapters_are_merged_one_after_the_other(store, tmp_path):
    again, state = CheckpointStore(tmp_path / "again"), AdapterBase.from_checkpoint(store.load(), 0.5).to_state()
    save(again, {"m/kernel/lora_a": -A, "m/kernel/lora_b": B}, state)
    assert again.load_model().weights["m/kernel"].tolist() == WEIGHTS["m/kernel"].tolist()
    state = store.load().state
    save(store, {"m/kernel/lora_a": A, "m/kernel/lora_b": B}, state, 4, ema={"m/kernel/lora_b": 2 * B})
    found = store.load_model()
    assert found.weights["m/kernel"].tolist() == [[11, 102], [23, 204]]
    assert found.ema is None


@pytest.mark.parametrize("factors", [
    {"m/kernel/lora_a": A}, {"m/kernel/lora_b": B}, {"m/other/lora_a": A, "m/other/lora_b": B},
    {"m/bias/lora_a": A, "m/bias/lora_b": B}, {"m/kernel/lora_a": A, "m/kernel/lora_b": B[:, :1]},
    {"m/kernel/lora_a": A[:1], "m/kernel/lora_b": B}, {"m/kernel": WEIGHTS["m/kernel"]},
])  # fmt: skip
def test_factors_that_do_not_fit_are_named(store, factors):
    save(store, factors, store.load().state, 4)
    path = next(iter(factors)).rpartition("/")[0]
    with refused(store.folder / "step-00000004", path):
        store.load_model()


def test_a_base_that_is_not_named_as_it_is_written_is_damage_and_a_damaged_one_is_named(store, tmp_path):
    for step, entry in enumerate([None, [], {"path": "x"}, {"path": "x", "fingerprint": "y", "scale": "z"}], 4):
        save(store, {}, {"adapters": entry}, step)
        with refused("state.json", by=DamagedCheckpointError):
            store.load(step)
    path = tmp_path / "base/step-00000007/model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with refused(path.parent, path.name, by=DamagedCheckpointError):
        store.load_model(3)
