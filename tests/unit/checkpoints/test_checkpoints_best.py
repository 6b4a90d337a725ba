"""Best checkpoints: marking, ranking, and damaged files."""

import json
import math

import pytest

from t2t.checkpoints.best import Best
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.files.trust import sealed
from tests.unit.checkpoints.test_checkpoints_store import save


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run" / "checkpoints")


def test_a_damaged_best_pointer_is_an_error_and_stops_pruning(store, caplog):
    save(store, 500, 1000)
    store.mark_best(500, "bleu", 1.0)
    (store.folder / "best.json").write_bytes(b'{"step": 5')
    with pytest.raises(UserError, match=r"best.json is damaged; remove it and name a checkpoint by its step"):
        store.load("best")
    assert store.prune(1) == []
    assert "until then no checkpoint is removed" in caplog.text


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


@pytest.mark.parametrize(
    "content",
    [{"steps": [1, 2], "values": [1.0]}, {"steps": ["1"], "values": [1.0]}, {"steps": [1], "values": [None]}, None],
)
def test_a_damaged_ranking_is_an_error_and_stops_pruning(store, caplog, content):
    save(store, 1, 2)
    text = json.dumps(sealed("ranking.json", {"metric": "bleu", **content})) if content else "{"
    (store.folder / "ranking.json").write_text(text)
    with pytest.raises(UserError, match=r"ranking.json is damaged; remove it and name a checkpoint by its step"):
        store.ranking()
    assert store.prune(1) == []
    assert "until then no checkpoint is removed" in caplog.text


def test_the_best_must_exist(store):
    save(store, 500)
    with pytest.raises(UserError, match=r"checkpoint '400': there is none; .* holds steps 500"):
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
    assert f"checkpoint step-00000001 is not marked as the best: its loss is {value}" in caplog.text
    store.mark_best(2, "loss", 3.0)
    store.mark_best(3, "loss", value)
    assert store.best() == Best(2, "loss", 3.0)


def test_a_best_that_was_marked_by_no_number_is_none(store):
    save(store, 1, 2)
    (store.folder / "best.json").write_text('{"step": 1, "metric": "loss", "value": NaN}')
    assert store.best() is None
    with pytest.raises(UserError, match=r"checkpoint 'best': there is none; .* holds steps 1, 2; give latest"):
        store.load("best")
    store.mark_best(2, "loss", 3.0)
    assert store.best() == Best(2, "loss", 3.0)
