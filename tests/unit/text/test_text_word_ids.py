import pytest

from t2t.text.word_ids import WordIds


@pytest.fixture
def asked():
    return []


@pytest.fixture
def ids(asked):
    return WordIds(lambda word: asked.append(word) or [len(word), 70_000], most_words=2, longest_word=3)


def test_a_word_is_found_once_and_joins_as_int32(ids, asked):
    assert b"".join(map(ids.__getitem__, ["ab", "", "ab"])).hex() == "020000007011010000000000701101000200000070110100"
    assert asked == ["ab", ""]


def test_no_more_words_are_kept_than_the_most_and_no_long_ones(ids, asked):
    for word in ("a", "b", "long", "long", "c", "a"):
        assert ids[word] == ids[word]
    assert asked == ["a", "b", "long", "long", "long", "long", "c", "a"]
    assert set(ids) == {"c", "a"}
