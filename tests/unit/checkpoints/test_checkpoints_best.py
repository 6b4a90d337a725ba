"""Best checkpoints: marking, ranking, and damaged files."""

import json
import math

import pytest

from t2t.checkpoints.best import Best
from t2t.checkpoints.store import CheckpointStore
from t2t.files.trust import sealed
from tests.errors import refused
from tests.unit.checkpoints.test_checkpoints_store import save


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run" / "checkpoints")


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


def test_the_best_must_exist(store):
    save(store, 500)
    with refused("'400'", store.folder, 500):
        store.mark_best(400, "bleu", 1.0)
    assert store.best() is None


def test_the_best_may_have_any_finite_number(store):
    save(store, 1)
    for value in (-1, 0.1 + 0.2, 1e300):
        store.mark_best(1, "loss", value)
        assert store.best() == Best(1, "loss", float(value))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_the_best(store, caplog, value):
    save(store, 1, 2, 3)
    store.mark_best(1, "loss", value)
    assert store.best() is None
    assert all(word in caplog.text for word in ("step-00000001", "loss", str(value)))
    store.mark_best(2, "loss", 3.0)
    store.mark_best(3, "loss", value)
    assert store.best() == Best(2, "loss", 3.0)


def test_a_best_that_was_marked_by_no_number_is_none(store):
    save(store, 1, 2)
    (store.folder / "best.json").write_text('{"step": 1, "metric": "loss", "value": NaN}')
    assert store.best() is None
    with refused("'best'", 1, 2):
        store.load("best")
    store.mark_best(2, "loss", 3.0)
    assert store.best() == Best(2, "loss", 3.0)
