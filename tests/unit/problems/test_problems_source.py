import random

import pytest

from t2t.problems.source import Source


@pytest.fixture
def source(tmp_path):
    return Source(tmp_path, random.Random(1), work_dir=tmp_path)


def test_what_is_cached_is_computed_once_in_a_generation(source, tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return [["a", 1, None]]

    other = source.each_shard(3)[2]
    assert [each.cached("train-parts", compute) for each in (source, source.fork(), other)] == [[["a", 1, None]]] * 3
    assert source.cached("dev-parts", compute) == [["a", 1, None]]
    assert len(calls) == 2
    apart = Source(tmp_path, random.Random(1))
    assert apart.cached("train-parts", compute) == [["a", 1, None]]
    assert len(calls) == 3


def test_a_cache_that_is_damaged_is_computed_again(source, tmp_path):
    source.cached("train-parts", lambda: [1, 2])
    path = tmp_path / "train-parts.json"
    path.write_text(path.read_text().replace("2", "3", 1))
    assert [source.cached("train-parts", lambda: [4]) for _ in range(2)] == [[4], [4]]


def test_each_shard_has_chance_of_its_own_that_follows_from_the_seed(tmp_path):
    def draws(seed):
        return [each.rng.random() for each in Source(tmp_path, random.Random(seed)).each_shard(4)]

    assert draws(1) == draws(1)
    assert len({*draws(1), *draws(2)}) == 8
    assert [each.shard for each in Source(tmp_path, random.Random(1)).each_shard(4)] == [0, 1, 2, 3]
