"""Parts of runs of several problems, and the message about examples that are longer than `max_length`."""

from types import SimpleNamespace

import pytest

from t2t.runs.parts import _report_examples, build_parts, micro_batches_of, resolve_best_metric
from t2t.runs.settings import Settings
from t2t.text.token import TokenEncoder
from tests.builders import tiny_hparams
from tests.errors import refused
from tests.letters import Letters, letters


def report(skipped=0, shortened=0, of=1000, longest=1234, is_new=True, normalized=()):
    train = SimpleNamespace(normalized=dict(normalized), examples=of)
    data = SimpleNamespace(
        readers={"train": range(of)}, problem=SimpleNamespace(name="news"),
        manifest=SimpleNamespace(split={"train": train}.get),
    )  # fmt: skip
    _report_examples(SimpleNamespace(skipped=skipped, shortened=shortened, longest=longest), data, 256, is_new)


@pytest.mark.parametrize(("sizes", "replicas", "count"), [
    ((0,), 1, 2), ((0,), 2, 1), ((1024,), 1, 8), ((1024, 1024), 2, 4), ((1024, 32), 1, 8), ((0, 32), 1, 2),
])  # fmt: skip
def test_the_size_of_an_update_is_reached_by_batches_of_the_problems_sizes(sizes, replicas, count):
    hparams = tiny_hparams(batch_size=4096, effective_batch_size=8192, problem_batch_sizes=sizes)
    assert micro_batches_of(hparams, replicas) == count


def test_nothing_is_said_where_none_is_longer(caplog):
    report()
    assert caplog.messages == []


@pytest.mark.parametrize(("counts", "about"), [
    ({"skipped": 499}, ["49.9%", "499", "1,234"]),
    ({"skipped": 999, "is_new": False}, ["99.9%", "999"]),  # a resumed run may skip what it always has
    ({"shortened": 1000}, ["100.0%"]),  # cut examples are a warning however many
])  # fmt: skip
def test_longer_examples_are_a_warning_with_their_share(caplog, counts, about):
    report(**counts)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert all(word in record.getMessage() for word in ("max_length=256", "news", "1,000", *about))


def test_texts_that_the_vocabulary_changes_are_a_warning_with_their_number(caplog):
    report(normalized={"targets": 321})
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert all(word in record.getMessage() for word in ("targets", "321", "1,000"))


@pytest.mark.parametrize(("skipped", "share"), [(500, "50.0%"), (999, "99.9%")])
def test_half_skipped_is_an_error(skipped, share):
    with refused("max_length=256", share, "news", skipped, "1,000", "1,234"):
        report(skipped=skipped)


@pytest.mark.parametrize("settings", [{"evaluates": False}, {"eval_steps": 0}])
def test_a_run_that_does_not_evaluate_does_not_stop_early(settings):
    hparams = tiny_hparams(early_stopping_steps=5, best_metric="loss")
    with refused("early_stopping_steps=5:", "--schedule=continuous_train_and_eval", "--eval_steps"):
        resolve_best_metric(hparams, letters(), None, Settings(**settings))


def test_problems_with_shared_modalities_have_the_same_vocabularies():
    class Others(Letters):
        name = "others"

    encoders = letters().encoders | {"targets": TokenEncoder("xyz")}
    data = [SimpleNamespace(problem=problem) for problem in (letters(), Others().with_encoders(encoders))]
    with refused("shared_modalities=True:", "letters", "others", "targets", "--shared_vocab_file"):
        build_parts(None, data, tiny_hparams(shared_modalities=True), Settings(), 1, True)
