"""The message of a run about training examples that are longer than its `max_length`."""

from types import SimpleNamespace

import pytest

from t2t.errors import UserError
from t2t.runs.parts import _report_longer, micro_batches_of
from tests.builders import tiny_hparams


def report(skipped=0, shortened=0, of=1000, longest=1234, is_new=True):
    data = SimpleNamespace(readers={"train": range(of)}, problem=SimpleNamespace(name="news"))
    _report_longer(SimpleNamespace(skipped=skipped, shortened=shortened, longest=longest), data, 256, is_new)


@pytest.mark.parametrize(
    ("sizes", "replicas", "count"),
    [((0,), 1, 2), ((0,), 2, 1), ((1024,), 1, 8), ((1024, 1024), 2, 4), ((1024, 32), 1, 8), ((0, 32), 1, 2)],
)
def test_the_size_of_an_update_is_reached_by_batches_of_the_problems_sizes(sizes, replicas, count):
    hparams = tiny_hparams(batch_size=4096, effective_batch_size=8192, problem_batch_sizes=sizes)
    assert micro_batches_of(hparams, replicas) == count


def test_nothing_is_said_where_none_is_longer(caplog):
    report()
    assert caplog.messages == []


def test_skipped_examples_are_a_warning_with_their_share(caplog):
    report(skipped=499)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "hparam max_length=256: 49.9% of the training examples of news (499 of 1,000) are longer and are skipped; "
            "to learn from them whole, raise max_length (the longest has 1,234) or make the examples shorter",
        )
    ]


@pytest.mark.parametrize(("skipped", "share"), [(500, "50.0%"), (999, "99.9%")])
def test_half_skipped_is_an_error(skipped, share):
    with pytest.raises(UserError) as raised:
        report(skipped=skipped)
    assert str(raised.value) == (
        f"hparam max_length=256: {share} of the training examples of news ({skipped} of 1,000) are longer and would be "
        f"skipped; raise max_length (the longest has 1,234) or make the examples shorter"
    )


def test_a_resumed_run_may_skip_what_it_always_has(caplog):
    report(skipped=999, is_new=False)
    assert "99.9% of the training examples of news (999 of 1,000) are longer and are skipped; to learn" in caplog.text


def test_cut_examples_are_a_warning_however_many(caplog):
    report(shortened=1000)
    assert "100.0% of the training examples of news (1,000 of 1,000) are longer and are cut; to learn" in caplog.text
