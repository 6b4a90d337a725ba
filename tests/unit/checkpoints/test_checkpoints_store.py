"""The store: pointers, fallback, names on the command line, pruning; the best checkpoints: marking and ranking."""

import json
import logging
import math
import os
import shutil

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import DamagedCheckpointError, _json_bytes
from t2t.checkpoints.layout import Best
from t2t.checkpoints.store import CheckpointStore
from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.files.trust import sealed
from tests.errors import refused
from tests.unit.checkpoints.test_checkpoints_checkpoint import write_with_checksum


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run" / "checkpoints")


def save(store, *steps):
    for step in steps:
        store.save(step, model={"w": np.full(3, step, np.float32)}, optimizer={"m": np.zeros(3)}, state={"at": step})


def damage(store, step):
    file = store.folder / f"step-{step:08d}" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_save_and_load_by_every_name(store, tmp_path):
    assert (store.steps(), store.names(), store.latest(), store.best()) == ([], [], None, None)
    with refused("'latest'", store.folder):
        store.load()
    assert not store.folder.exists()
    save(CheckpointStore(tmp_path / "other/checkpoints"), 7, 8)
    assert store.load(str(tmp_path / "other")).step == 8, "the latest of another run"
    save(store, 500, 1000, 1500)
    store.mark_best(1000, "bleu", 31)
    assert store.folder.joinpath("step-00001500", "model.safetensors").is_file()
    assert store.steps() == [500, 1000, 1500]
    assert (store.latest(), store.best()) == (1500, Best(1000, "bleu", 31.0))
    (store.folder / "step-00000500" / "optimizer.safetensors").write_bytes(b"damaged")
    loaded = store.load_model(500)  # decoding does not read the optimizer
    assert (loaded.optimizer, loaded.weights["w"][0]) == (None, 500)
    save(store, 500, 1500)
    for which, step in {
        "latest": 1500, "best": 1000, 500: 500, "500": 500, "00500": 500, "step-00000500": 500,
        str(store.folder / "step-00000500"): 500, str(store.folder.parent): 1500, str(store.folder): 1500,
    }.items():  # fmt: skip
        loaded = store.load(which)
        assert (loaded.step, loaded.state, loaded.model["w"][0]) == (step, {"at": step}, step)
    for name in ("step-500", "step-000000501", "step-0000050x", ".tmp-step-00000600", "averaged-", "notes"):
        (store.folder / name).mkdir()
    (store.folder / "step-00000700").write_text("a file")
    assert (store.steps(), store.names()) == ([500, 1000, 1500], []), "others are no checkpoints"


def test_arrays_come_sorted_by_name(store):
    """Else noise that a seed draws for each array in turn would differ from one process to the next."""
    names = [f"layer_{n}/kernel" for n in range(20)]
    store.save(1, model={name: np.zeros(2, np.float32) for name in reversed(names)}, state={})
    assert list(store.load().model) == sorted(names)


def test_two_do_not_write_the_same_average(store):
    save(store, 7)
    store.save_named("averaged", 7, model={"w": np.ones(3)})
    with exclusive_lock(lock_beside(store.folder / "averaged")):
        with refused("averaged", os.getpid()):
            store.save_named("averaged", 7, model={"w": np.zeros(3)})
        store.save_named("averaged-last-5", 7, model={"w": np.zeros(3)})
        save(store, 8)
    assert store.load("averaged").model["w"].all()


def test_an_unknown_checkpoint_is_answered_with_those_there_are(store):
    save(store, *range(1, 14))
    store.save_named("averaged-last-5", 13, model={"w": np.ones(3)})
    with refused("'nonsense'", store.folder, 3, *range(4, 14), "averaged-last-5"):
        store.load("nonsense")
    for which in ("best", "averaged", 14, "../step-00000001", "/nowhere"):
        with refused(f"'{which}'"):
            store.load(which)


def test_a_damaged_latest_gives_way_to_the_one_before_with_a_warning(store, caplog):
    save(store, 500, 1000, 1500)
    damage(store, 1500)
    with caplog.at_level(logging.WARNING, "t2t"):
        assert store.load("latest").step == 1000
    assert all(word in caplog.text for word in ("step-00001500", "model.safetensors", "step 1000"))
    assert store.load_model().step == 1000


def test_what_is_damaged_is_an_error_if_asked_for_by_name_or_all_is_and_never_a_fresh_start(store):
    save(store, 500, 1000)
    store.mark_best(500, "bleu", 1.0)
    damage(store, 500)
    for which in (500, "best"):
        with refused("step-00000500", 500, 1000, by=DamagedCheckpointError):
            store.load(which)
    damage(store, 1000)
    with refused(store.folder, 2, "step-00001000"):
        store.load("latest")
    save(store, 500, 1000)
    write_with_checksum(store.folder / "step-00001000/state.json", _json_bytes({"format": 9}))
    with refused(9, "step-00001000"):  # a newer format is not passed over
        store.load("latest")
    (store.folder / "step-00000500").rename(store.folder / "step-00000600")
    with refused("step-00000600", "step-00000500", by=DamagedCheckpointError):
        store.load(600)


def test_a_missing_latest_gives_way_to_the_newest_of_the_others_and_never_to_a_fresh_start(store, caplog):
    save(store, 500, 1000, 1500)
    shutil.rmtree(store.folder / "step-00001500")
    assert store.load().step == 1000
    assert "step 1000" in caplog.text
    for step in (500, 1000):
        shutil.rmtree(store.folder / f"step-0000{step:04}")
    with refused("step-00001500", store.folder):
        store.latest()


def test_a_damaged_latest_pointer_is_replaced_by_looking(store, caplog):
    save(store, 500, 1000)
    for content in (b"", b"{}", b"[]", b'{"step": "500"}', b"\xff", b'{"step": 500, "x": 1}'):
        (store.folder / "latest.json").write_bytes(content)
        caplog.clear()
        assert store.load().step == 1000
        assert "latest.json" in caplog.text


def test_training_on_after_a_fallback_replaces_the_damaged_one(store):
    save(store, 500, 1000)
    damage(store, 1000)
    save(store, 750)
    assert store.load().step == 750
    save(store, 1000)
    assert store.load().step == 1000
    assert sorted(path.name for path in store.folder.iterdir()) == [
        "latest.json", "step-00000500", "step-00000750", "step-00001000",
    ]  # fmt: skip


def test_named_checkpoints_hold_weights_only_and_do_not_become_the_latest(store):
    save(store, 500)
    store.save_named("averaged", 500, model={"w": np.ones(3)}, state={"averaged_steps": [500]})
    store.save_named("averaged", 500, model={"w": np.full(3, 2.0)}, state={"averaged_steps": [1, 2]})
    assert (store.latest(), store.names()) == (500, ["averaged"])
    loaded = store.load("averaged")
    assert (loaded.optimizer, loaded.state, loaded.model["w"][0]) == (None, {"averaged_steps": [1, 2]}, 2.0)
    for name in ("latest", "step-00000500", "../averaged", "averaged/x", ".tmp-averaged"):
        with refused(name, "averaged"):
            store.save_named(name, 1, model={})


def test_pruning_keeps_the_newest_the_latest_the_best_and_the_named(store):
    save(store, 100, 200, 300, 400, 500, 600)
    store.mark_best(200, "bleu", 30.0)
    store.save_named("averaged", 600, model={"w": np.ones(3)})
    damage(store, 600)
    save(store, 350)  # after a fallback, the latest need not be the highest
    assert store.prune(2) == [100, 300, 400]
    assert (store.steps(), store.latest(), store.names()) == ([200, 350, 500, 600], 350, ["averaged"])
    assert store.prune(2) == []
    assert store.prune(0) == []
    with refused(-1):
        store.prune(-1)
    for name in (".tmp-step-00000050", ".tmp-step-00000200", ".old-step-00000100"):
        (store.folder / name).mkdir()  # which crashes left
    (store.folder / ".tmp-averaged").mkdir()  # another process may still write it
    assert store.prune(0) == []
    assert [path.name for path in store.folder.glob(".*-*")] == [".tmp-averaged"]


# === The best ones ===
def test_every_ranked_checkpoint_is_kept(store):
    save(store, 1, 2, 3, 4, 5)
    assert store.ranking() == []
    ranking = [Best(2, "bleu", 9.5), Best(1, "bleu", 7.0)]
    store.rank_best(ranking)
    store.mark_best(2, "bleu", 9.5)
    assert store.prune(2) == [3]
    assert (store.steps(), store.ranking()) == ([1, 2, 4, 5], ranking)
    store.rank_best(ranking[:1])
    assert store.prune(2) == [1]


DAMAGED = [
    ("best", b'{"step": 5'),
    ("ranking", b"{"),
    *(("ranking", json.dumps(sealed("ranking.json", {"metric": "bleu", "steps": steps, "values": values})).encode())
      for steps, values in (([1, 2], [1.0]), (["1"], [1.0]), ([1], [None]))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_damage_is_an_error_and_stops_pruning(store, caplog, name, content):
    save(store, 1, 2)
    store.mark_best(1, "bleu", 1.0)
    (store.folder / f"{name}.json").write_bytes(content)
    with refused(f"{name}.json"):
        store.load("best") if name == "best" else store.ranking()
    assert store.prune(1) == []
    assert store.steps() == [1, 2]
    assert f"{name}.json" in caplog.text


def test_the_best_may_have_any_finite_number(store):
    save(store, 1)
    for value in (-1, 0.1 + 0.2, 1e300):
        store.mark_best(1, "loss", value)
        assert store.best() == Best(1, "loss", float(value))
    with refused("'400'", store.folder, 1):
        store.mark_best(400, "loss", 1.0)  # which must exist


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_the_best(store, caplog, value):
    save(store, 1, 2, 3)
    store.mark_best(1, "loss", value)
    assert store.best() is None
    assert all(word in caplog.text for word in ("step-00000001", "loss", str(value)))
    store.mark_best(2, "loss", 3.0)
    store.mark_best(3, "loss", value)
    assert store.best() == Best(2, "loss", 3.0)
    (store.folder / "best.json").write_text('{"step": 1, "metric": "loss", "value": NaN}')
    assert store.best() is None
    with refused("'best'", 1, 2):
        store.load("best")
