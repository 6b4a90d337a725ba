"""Rows, their sizes and batches; which batches are joined; parallel jobs."""

import threading
import time
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.backends.jax.padding import padded_edges, padded_length, padded_rows, padded_states
from t2t.backends.tensorflow.devices import build_strategy
from t2t.hparams.groups import DecodeHParams
from t2t.inference.batch_search import SearchBatch, SearchRows
from t2t.inference.growing_search import BatchQueue, min_active_size, select_active
from t2t.inference.parallel import CPU_QUEUE, GPU_QUEUE, Jobs, Sharing, batch_share, queues_of
from t2t.inference.rows import batches_of, cut_rows, describe_max_ids, max_sequence_ids, padded, row_sizes
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind
from tests.builders import tiny_transformer
from tests.waiting import LIMIT_S, join_all, start_thread


# === Where rows are cut, their size in a batch, and how many form a batch: each limit by hand ===
def sized(positions=None, has_inputs=True, max_length=256):
    inputs = SimpleNamespace(kind=FeatureKind.TOKENS) if has_inputs else None
    spec, hparams = SimpleNamespace(inputs=inputs), SimpleNamespace(max_length=max_length)
    return SimpleNamespace(spec=spec, longest_sequence=positions, hparams=hparams)


FOUR = DecodeHParams(max_input_length=4)


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (2, 2), (3, 3), (4, 3), (5, 3)])
def test_an_input_is_cut_where_no_room_is_left_for_its_end(caplog, length, kept):
    ids = list(range(10, 10 + length))
    assert cut_rows(sized(), [ids], FOUR) == [[*ids[:kept], EOS_ID]]
    assert len(caplog.messages) == (length > 3)


def test_only_rows_that_lose_something_are_counted(caplog):
    cut_rows(sized(), [[7] * length for length in (3, 4, 2, 5)], FOUR)
    (line,) = caplog.messages
    assert line.startswith("2 of 4 ")
    assert "max_input_length" in line


def test_a_beginning_of_an_output_keeps_its_end_and_leaves_room_for_an_id():
    assert cut_rows(sized(has_inputs=False), [[7, 8, 9], [6, 7, 8, 9]], FOUR) == [[7, 8, 9], [7, 8, 9]]


@pytest.mark.parametrize(
    ("positions", "asked", "max_length", "longest"),
    [
        (None, 0, 256, 1024), (None, 0, 1024, 1024), (None, 0, 1025, 1025), (None, 4, 256, 4), (5, 4, 256, 4),
        (4, 5, 256, 4), (4, 4, 256, 4), (2000, 0, 256, 1024), (None, 12, 3000, 12), (None, 4000, 256, 4000),
    ],
)  # fmt: skip
def test_the_longest_is_the_smaller_of_what_the_model_and_the_user_allow(positions, asked, max_length, longest):
    hparams = DecodeHParams(max_input_length=asked)
    assert max_sequence_ids(sized(positions, max_length=max_length), hparams) == longest


@pytest.mark.parametrize(("positions", "is_asked"), [(4, False), (5, True), (None, True)])
def test_what_has_set_the_longest_is_said(positions, is_asked):
    assert ("max_input_length" in describe_max_ids(sized(positions), FOUR)) == is_asked


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


# === Batches of JAX are padded to few sizes, and not by much ===
def test_sizes_by_hand():
    assert [padded_rows(rows) for rows in (1, 2, 3, 4, 5, 7, 9, 13, 100)] == [1, 2, 3, 4, 6, 8, 12, 16, 128]
    assert [padded_length(length) for length in (1, 8, 9, 17, 33, 41, 65, 130, 1000)] == [
        8, 8, 16, 24, 40, 48, 80, 160, 1024,
    ]  # fmt: skip
    assert [padded_states(states) for states in (1, 32, 33, 65, 129)] == [32, 32, 64, 96, 192]
    assert [padded_edges(edges) for edges in (0, 1, 4, 5, 9, 17, 33)] == [0, 4, 4, 8, 12, 24, 48]


def test_few_sizes_and_little_padding():
    """At most a third of the rows and a fifth of a long row are padding; a size is padded to itself."""
    sizes = range(1, 2000)
    for padded_to, fewest, largest_share, count in ((padded_rows, 1, 1 / 3, 22), (padded_length, 8, 1 / 5, 30)):
        found = {size: padded_to(size) for size in sizes}
        assert all(size <= found[size] and padded_to(found[size]) == found[size] for size in sizes)
        assert all(found[size] - size < max(fewest, largest_share * found[size]) for size in sizes if size > 32)
        assert len(set(found.values())) <= count


# === Which unfinished batches are joined, as many as fit and no more, and which sentences leave them ===
class Steps:
    """A search that finishes all sentences in a step, and all but `left` of each batch in the first."""

    def __init__(self, last, left=None):
        self.last, self.left = last, left
        self.seen = []
        """Steps and row indices of each batch."""

    def step_weights(self):
        return ()

    def start(self, indices, rows, asked):
        return SearchBatch(indices, 0, None)

    def advance(self, batch, weights):
        self.seen.append((batch.tokens, batch.indices.tolist()))
        if batch.tokens == self.last:
            return [(batch.indices, None)], None
        left = batch.indices[: self.left] if batch.tokens == 0 else batch.indices
        gone = batch.indices[len(left) :]
        return [(gone, None)] if len(gone) else [], SearchBatch(left, batch.tokens + 1, None)


def run(search, batches, size, max_ids):
    """Searches rows of one size; returns the batches that were joined."""
    joined, count = [], sum(len(batch) for batch in batches)

    def concat(batches):
        joined.append([batch.indices.tolist() for batch in batches])
        return SearchBatch(np.concatenate([batch.indices for batch in batches]), batches[0].tokens, None)

    queue = BatchQueue(search, np.full(count, size), max_ids, concat)
    rows = [(np.array(batch), np.zeros((len(batch), size), np.int32)) for batch in batches]
    found = chain.from_iterable(queue.run(rows, SearchRows(np.arange(count))))
    assert sorted(n for indices, _ in found for n in indices.tolist()) == list(range(count))
    return joined


@pytest.mark.parametrize(
    ("size", "max_ids", "second"),
    [
        (2, 8, [[0, 1, 2, 3], [4]]),  # 4 x 2 = 8 fits, 5 x 2 does not
        (2, 7, [[0, 1, 2], [3, 4]]),
        (2, 10, [[0, 1, 2, 3, 4]]),
        (3, 8, [[0, 1], [2, 3], [4]]),
        (9, 8, [[0], [1], [2], [3], [4]]),  # rows that are too long are searched alone
    ],
)
def test_unfinished_batches_are_concatenated_as_far_as_they_fit(size, max_ids, second):
    search = Steps(last=1)
    run(search, [[0], [1], [2], [3], [4]], size, max_ids)
    assert sorted(indices for tokens, indices in search.seen if tokens) == second


def test_batches_wait_for_others_until_they_are_one_batchs_worth():
    """Rows of 4 ids, at most 16 ids a batch: of three batches with 2 unfinished rows each, two are joined."""
    search = Steps(last=2, left=2)
    joined = run(search, np.arange(12).reshape(3, 4).tolist(), 4, 16)
    assert joined == [[[0, 1], [4, 5]], [[8, 9]], [[0, 1, 4, 5]], [[8, 9]]]
    assert [tokens for tokens, _ in search.seen] == [0, 0, 0, 1, 1, 2, 2]


def test_what_leaves_a_batch_and_what_stays():
    going = np.array([True, False, True, False, False, True, False, False, False])

    def staying(active, min_active):
        return np.flatnonzero(select_active(np.array(active, bool), np.int32(min_active))).tolist()

    assert staying(going, 0) == list(range(9)), "more are going than may stay"
    assert staying(np.zeros(9), 8) == staying(np.zeros(9), 0) == []
    assert staying(going, 8) == [0, 1, 2, 5]
    assert staying([0, 1, 0, 0], 2) == [1]
    assert staying(np.arange(40) % 8 == 7, 16) == [0, 1, 2, 7, 15, 23, 31, 39]
    assert staying(np.arange(17) < 11, 16) == list(range(16))
    assert [min_active_size(size) for size in (1, 2, 7, 14, 16, 46)] == [0, 1, 2, 4, 8, 16]


# === Parallel jobs: each is done once, on one device, and one failure ends all ===
@pytest.fixture(scope="module")
def model():
    return tiny_transformer(num_hidden_layers=1)


@pytest.fixture(params=[1, 2])
def jobs(request, model):
    """Jobs of a model on one logical CPU device, or on two."""
    if request.param == 1:
        return Jobs(model)
    with build_strategy(worker_cpu=2).scope():
        return Jobs(tiny_transformer(num_hidden_layers=1))


def test_jobs_run_in_parallel_and_their_items_all_come(jobs):
    both_are_here = threading.Barrier(2, timeout=LIMIT_S)

    def work(job):
        both_are_here.wait()
        yield job
        yield job * job

    assert sorted(jobs.run(work, [2, 3, 4, 5], at_a_time=2)) == sorted([2, 4, 3, 9, 4, 16, 5, 25])


def test_one_job_at_a_time_is_done_on_a_device(model):
    running, most = [], []

    def work(job):
        running.append(job)
        most.append(len(running))
        yield job
        running.remove(job)

    assert sorted(Jobs(model).run(work, range(5))) == list(range(5))
    assert max(most) == 1


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_a_failing_job_fails_the_whole_and_later_ones_are_not_begun(model, at_a_time):
    begun, failed = [], threading.Event()

    def work(job):
        begun.append(job)
        if job == 2:
            failed.set()
            raise ValueError("two")
        assert failed.wait(LIMIT_S)
        time.sleep(0.01)  # all jobs take half a minute, which is longer than noticing the failure
        yield job

    with pytest.raises(ValueError, match="two"):
        list(Jobs(model).run(work, range(2, 3000), at_a_time))
    assert len(begun) < 2998


def test_jobs_are_stopped_between_two_items_where_nobody_wants_more(model):
    """An item each may be on its way when the reader stops."""
    done, stopped = [], threading.Event()

    def work(job):
        yield job
        assert stopped.wait(LIMIT_S)
        for item in range(1_000_000):
            done.append(item)
            yield item

    items = Jobs(model).run(work, [1, 2], at_a_time=2)
    next(items)
    closing = start_thread(items.close)
    stopped.set()
    join_all(closing)
    assert len(done) < 2_000_000


def test_workers_have_the_items_of_all(model):
    """Three workers in three threads: each does its own jobs and receives the items of all."""
    turn, sent = threading.Barrier(3, timeout=LIMIT_S), [b""] * 3
    done = [[] for _ in range(3)]
    found = [None] * 3

    def be_worker(index):
        def exchange(items):
            sent[index] = items
            turn.wait()
            return list(sent)

        def work(job):
            done[index].append(job)
            yield job, job / 3

        found[index] = list(Jobs(model, Sharing(index, 3, exchange)).run(work, range(8)))

    join_all(*[start_thread(be_worker, index) for index in range(3)])
    assert done == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert found[0] == found[1] == found[2]
    assert sorted(found[0]) == [(job, job / 3) for job in range(8)]


@pytest.mark.parametrize(("ids", "share"), [(10_000, 1000), (2001, 501), (300, 256)])
def test_every_core_gets_a_batch_of_what_is_worth_dividing(ids, share):
    assert batch_share(ids, 1000, searches=4) == share


def test_queues_are_of_equal_work_and_no_more_than_pay():
    assert queues_of([9], 2, CPU_QUEUE) == [[9]]
    assert queues_of([9, 8, 7], 2, CPU_QUEUE) == [[9, 7], [8]]
    for count, most, sizes in (
        (33, CPU_QUEUE, [17, 16]),
        (50, CPU_QUEUE, [17, 17, 16]),
        (50, GPU_QUEUE, [5, 5, *[4] * 10]),
    ):
        assert [len(queue) for queue in queues_of(list(range(count)), 2, most)] == sizes
