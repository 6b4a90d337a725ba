"""Where rows are cut, their size in a batch, and how many form a batch: each limit by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from t2t.hparams.groups import DecodeHParams
from t2t.inference.rows import batches_of, cut_rows, describe_max_ids, max_sequence_ids, padded, row_sizes
from t2t.specs.constants import EOS_ID
from t2t.specs.features import FeatureKind


def model(positions=None, has_inputs=True, max_length=256):
    inputs = SimpleNamespace(kind=FeatureKind.TOKENS) if has_inputs else None
    spec, hparams = SimpleNamespace(inputs=inputs), SimpleNamespace(max_length=max_length)
    return SimpleNamespace(spec=spec, longest_sequence=positions, hparams=hparams)


FOUR = DecodeHParams(max_input_length=4)


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (2, 2), (3, 3), (4, 3), (5, 3)])
def test_an_input_is_cut_where_no_room_is_left_for_its_end(caplog, length, kept):
    ids = list(range(10, 10 + length))
    assert cut_rows(model(), [ids], FOUR) == [[*ids[:kept], EOS_ID]]
    assert len(caplog.messages) == (length > 3)


def test_only_rows_that_lose_something_are_counted(caplog):
    cut_rows(model(), [[7] * length for length in (3, 4, 2, 5)], FOUR)
    (line,) = caplog.messages
    assert line.startswith("2 of 4 ")
    assert "max_input_length" in line


def test_a_beginning_of_an_output_keeps_its_end_and_leaves_room_for_an_id():
    assert cut_rows(model(has_inputs=False), [[7, 8, 9], [6, 7, 8, 9]], FOUR) == [[7, 8, 9], [7, 8, 9]]


@pytest.mark.parametrize(
    ("positions", "asked", "max_length", "longest"),
    [
        (None, 0, 256, 1024), (None, 0, 1024, 1024), (None, 0, 1025, 1025), (None, 4, 256, 4), (5, 4, 256, 4),
        (4, 5, 256, 4), (4, 4, 256, 4), (2000, 0, 256, 1024), (None, 12, 3000, 12), (None, 4000, 256, 4000),
    ],
)  # fmt: skip
def test_the_longest_is_the_smaller_of_what_the_model_and_the_user_allow(positions, asked, max_length, longest):
    hparams = DecodeHParams(max_input_length=asked)
    assert max_sequence_ids(model(positions, max_length=max_length), hparams) == longest


@pytest.mark.parametrize(("positions", "is_asked"), [(4, False), (5, True), (None, True)])
def test_what_has_set_the_longest_is_said(positions, is_asked):
    assert ("max_input_length" in describe_max_ids(model(positions), FOUR)) == is_asked


@pytest.mark.parametrize(
    ("length", "extra_length", "size"),
    [(0, 0, 1), (1, 0, 1), (5, 0, 5), (2, 14, 2), (2, 21, 2), (2, 22, 3), (0, 15, 1), (0, 16, 2)],
)
def test_a_row_counts_as_its_ids_or_an_eighth_of_its_outputs(length, extra_length, size):
    assert row_sizes([[7] * length], extra_length).tolist() == [size]


@pytest.mark.parametrize(
    ("most", "batches"),
    [(9, [[0, 1, 2]]), (8, [[2], [0, 1]]), (6, [[2], [0, 1]]), (5, [[2], [1], [0]]), (0, [[2], [1], [0]])],
)
def test_a_batch_is_as_large_as_it_may_be_and_the_longest_comes_first(most, batches):
    rows = [[7] * 3, [8] * 3, [9] * 3]
    found = batches_of(rows, row_sizes(rows), most)
    assert [indices.tolist() for indices, _ in found] == batches
    for indices, ids in found:
        assert ids.tolist() == [rows[index] for index in indices]


def test_rows_are_padded_to_the_longest_and_never_to_nothing():
    assert padded([[7], [8, 9], []]).tolist() == [[7, 0], [8, 9], [0, 0]]
    assert padded([[]]).tolist() == [[0]]
    assert padded([]).shape == (0, 1)
    arrays = padded([np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)])
    assert (arrays.shape, arrays.dtype, arrays.sum()) == ((2, 2, 3), np.float32, 9)
