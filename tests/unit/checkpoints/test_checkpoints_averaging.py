"""Averages compared with numpy, and checkpoints that cannot be averaged."""

import ml_dtypes
import numpy as np
import pytest

from t2t.checkpoints.averaging import (
    average,
    average_checkpoints,
    best_steps,
    last_steps,
    load_for_decoding,
    mean_checkpoint,
)
from t2t.checkpoints.layout import Best
from t2t.checkpoints.store import CheckpointStore
from tests.errors import refused


def test_the_average_is_numpys_mean_by_name_whatever_the_order():
    rng = np.random.default_rng(0)
    runs = [{name: rng.normal(size=(4, 3)).astype(np.float32) for name in "abc"} for _ in range(5)]
    shuffled = [dict(sorted(run.items(), reverse=index % 2 == 1)) for index, run in enumerate(runs)]
    result = average((f"step {index}", run) for index, run in enumerate(shuffled))
    for name in "abc":
        wanted = np.mean([run[name].astype(np.float64) for run in runs], axis=0).astype(np.float32)
        assert result[name].dtype == np.float32
        assert np.array_equal(result[name], wanted)
    # float32 cannot represent 2^24 + 1: a float32 sum would lose the ones
    arrays = [np.array([2.0**24], np.float32)] + [np.array([1.0], np.float32)] * 3
    assert average((str(i), {"w": array}) for i, array in enumerate(arrays))["w"] == np.float32((2**24 + 3) / 4)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_types_are_kept_and_integers_and_booleans_are_the_lasts(dtype):
    first = {"w": np.array([1.0, 3.0], dtype), "counter": np.int64(3), "flag": np.array([True])}
    last = {"w": np.array([2.0, 5.0], dtype), "counter": np.int64(8), "flag": np.array([False])}
    result = average([("a", first), ("b", last)])
    assert {name: array.dtype for name, array in result.items()} == {"w": dtype, "counter": np.int64, "flag": bool}
    assert {name: array.tolist() for name, array in result.items()} == {"w": [1.5, 4.0], "counter": 8, "flag": [False]}
    result["flag"][0] = True
    assert (first["w"].tolist(), last["flag"].tolist()) == ([1, 3], [False]), "the checkpoints are left as they were"


def test_one_checkpoint_at_a_time_is_in_memory():
    alive = set()

    class Weights(dict):
        def __init__(self, index):
            super().__init__(w=np.ones(2))
            self.index = index
            alive.add(index)

        def __del__(self):
            alive.discard(self.index)

    def stream():
        for index in range(4):
            assert len(alive) <= 1
            yield str(index), Weights(index)

    average(stream())


def test_differences_are_listed_by_name():
    first = {"a": np.ones(2, np.float32), "b": np.ones((2, 3), np.float32), "c": np.ones(1), "only1": np.ones(1)}
    second = {"a": np.ones(2, np.float16), "b": np.ones((3, 2), np.float32), "c": np.ones(1), "only2": np.ones(1)}
    with refused("only1", "only2", "float32", "float16") as caught:
        average([("step-1", first), ("step-2", second)])
    assert "a is (2,) float32 in step-1 and (2,) float16 in step-2" in str(caught.value)
    assert "b is (2, 3) float32 in step-1 and (3, 2) float32 in step-2" in str(caught.value)
    with refused("v07", 12) as caught:
        average([("a", {f"v{index:02d}": np.ones(1) for index in range(20)}), ("b", {})])
    assert "v08" not in str(caught.value), "a long list is cut"
    with refused():
        average([])


def store_of(folder, *steps):
    """Returns checkpoints whose weights equal their step."""
    store = CheckpointStore(folder / "checkpoints")
    for step in steps:
        store.save(step, model={"w": np.full(2, step, np.float32)}, optimizer={"m": np.ones(2)}, state={"seed": step})
    return store


def test_a_store_is_averaged_by_steps_into_a_named_checkpoint(tmp_path):
    store = store_of(tmp_path, 10, 20, 30)
    folder = average_checkpoints(store, last_steps(store, 2))
    assert folder.name == "averaged"
    loaded = store.load("averaged")
    assert (loaded.step, loaded.state, loaded.optimizer) == (30, {"averaged_steps": [20, 30]}, None)
    assert loaded.model["w"].tolist() == [25, 25]
    average_checkpoints(store, [10, 30, 20], "averaged-all")
    loaded = store.load("averaged-all")
    assert (loaded.step, loaded.state, loaded.model["w"][0]) == (30, {"averaged_steps": [10, 30, 20]}, 20)
    assert store.latest() == 30


def test_an_average_is_of_what_each_would_decode_with_and_knows_its_vocabularies(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    known = {"vocabularies": {"targets": ["byte", 259, "f" * 64]}}
    for step in (1, 2):
        model = {"w": np.full(2, 100.0), "statistic": np.full(2, float(step))}
        state = {"seed": 3, "data": {"epoch": step}, **known}
        store.save(step, model=model, ema={"w": np.full(2, float(step))}, state=state)
    average_checkpoints(store, [1, 2])
    weights = store.load_model("averaged").weights
    assert weights["w"].tolist() == weights["statistic"].tolist() == [1.5, 1.5]
    assert store.load("averaged").state == {"averaged_steps": [1, 2], **known}


@pytest.mark.parametrize("steps", [[1, 2], [1, "latest"]])
def test_a_damaged_checkpoint_is_neither_left_out_of_the_average_nor_replaced(tmp_path, steps):
    store = store_of(tmp_path, 1, 2)
    (store.folder / "step-00000002" / "model.safetensors").write_bytes(b"")
    with refused("step-00000002"):
        average_checkpoints(store, steps)
    assert store.names() == []


def test_the_last_n_are_those_that_exist(tmp_path, caplog):
    store = store_of(tmp_path)
    with refused(2, 0, store.folder):
        last_steps(store, 2)
    store_of(tmp_path, 1)
    assert last_steps(store, 1) == [1]
    with refused(2, 1, "--checkpoint=1"):
        last_steps(store, 2)
    store_of(tmp_path, 2, 3)
    assert last_steps(store, 3) == [1, 2, 3]
    assert not caplog.records
    assert last_steps(store, 4) == [1, 2, 3]
    assert "1, 2, 3" in caplog.text
    with refused("--n=0"):
        last_steps(store, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_checkpoint_that_is_not_finite_is_named(value, dtype):
    good, bad = ({"w": np.array([1.0, last], dtype)} for last in (2.0, value))
    with refused("step-2", "w"):
        average([("step-1", good), ("step-2", bad)])


def test_checkpoints_are_known_by_any_path_and_those_of_another_run_are_refused(tmp_path):
    store = store_of(tmp_path / "run", 1, 3)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    by_link = [f"{tmp_path}/link/checkpoints/step-0000000{step}" for step in (1, 3)]
    np.testing.assert_array_equal(mean_checkpoint(store, by_link).weights["w"], [2.0, 2.0])
    with refused(1, by_link[0]):
        average_checkpoints(store, [1, by_link[0]])
    store_of(tmp_path / "other", 5)
    with refused("step-00000005", "run/checkpoints"):
        average_checkpoints(store, [1, str(tmp_path / "other")])


# === The best ones ===
@pytest.fixture
def ranked(tmp_path):
    """Steps 1 to 5; the best ones are 4, 1 and 3."""
    store = store_of(tmp_path, *range(1, 6))
    store.rank_best([Best(4, "bleu", 9.0), Best(1, "bleu", 8.0), Best(3, "bleu", 7.0)])
    return store


def test_the_best_ones_are_averaged_in_memory(ranked):
    before = sorted(path.name for path in ranked.folder.iterdir())
    loaded = load_for_decoding(ranked, "best:2")
    assert (loaded.weights["w"].tolist(), loaded.step, loaded.name) == ([2.5, 2.5], 4, "best:2")
    assert loaded.state == {"averaged_steps": [4, 1]}
    assert sorted(path.name for path in ranked.folder.iterdir()) == before
    assert load_for_decoding(ranked, "latest").step == 5
    prints = {load_for_decoding(ranked, which).fingerprint for which in ("best:1", "best:2", "best:3", "latest")}
    assert len(prints) == 4
    assert load_for_decoding(ranked, "best:2").fingerprint in prints


def test_what_is_kept_decides_how_many_best_ones_are_averaged(ranked, caplog, tmp_path):
    assert best_steps(ranked, 3) == [4, 1, 3]
    assert not caplog.records
    assert best_steps(ranked, 4) == [4, 1, 3]
    assert "4, 1, 3" in caplog.text
    store = store_of(tmp_path / "other")
    with refused(2, 0, store.folder):
        best_steps(store, 2)
    store_of(tmp_path / "other", 7).mark_best(7, "bleu", 1.0)
    assert best_steps(store, 1) == [7]
    with refused("--checkpoint=7", "--keep_best_checkpoints=5"):
        best_steps(store, 5)
    with refused("best:0"):
        best_steps(store, 0)
