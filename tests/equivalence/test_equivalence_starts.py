"""A run that begins with another's weights: what it takes, what its record says, and how it is gone on with."""

import json
import logging

import numpy as np
import pytest

from t2t.errors import UserError


@pytest.fixture(scope="module")
def trained(make_run, tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("trained") / "run", train_steps=2)
    run.fit()
    return run


@pytest.mark.parametrize("which", ["run", "checkpoint"])
def test_a_warm_start_takes_the_weights_and_nothing_else(make_run, trained, tmp_path, which):
    source = trained.folder if which == "run" else trained.folder / "checkpoints/step-00000002"
    run = make_run(tmp_path / "warm", {"warm_start_from": str(source)}, train_steps=1, learning_rate=0.0)
    run.fit()
    for path, array in trained.checkpoint().model.items():
        np.testing.assert_array_equal(run.checkpoint().model[path], array)
    assert run.checkpoint().step == 1
    record = json.loads((run.folder / "run.json").read_text())
    assert record["warm_start"] == {"from": str(source.resolve()), "step": 2}


def test_a_resumed_run_keeps_its_beginning(make_run, trained, tmp_path):
    source = {"warm_start_from": str(trained.folder)}
    make_run(tmp_path / "run", source, train_steps=1).fit()
    make_run(tmp_path / "run", source, train_steps=2).fit()
    again = make_run(tmp_path / "run", train_steps=3)
    again.fit()
    whole = make_run(tmp_path / "whole", source, train_steps=3)
    whole.fit()
    for path, array in whole.checkpoint().model.items():
        np.testing.assert_array_equal(again.checkpoint().model[path], array)
    assert json.loads((again.folder / "run.json").read_text())["warm_start"]["step"] == 2
    with pytest.raises(
        UserError, match=rf"--warm_start_from={tmp_path}/whole: the run in .* began from {trained.folder}; "
    ):
        make_run(tmp_path / "run", {"warm_start_from": str(tmp_path / "whole")}, train_steps=4).fit()


def test_a_run_that_has_begun_takes_no_other_weights(make_run, trained, tmp_path):
    make_run(tmp_path / "run", train_steps=1).fit()
    with pytest.raises(UserError, match=r"began without one; leave the flag out to go on with it, or use another"):
        make_run(tmp_path / "run", {"warm_start_from": str(trained.folder)}, train_steps=2).fit()


def test_weights_of_another_vocabulary_are_refused(make_run, trained, tmp_path):
    record = json.loads((trained.folder / "run.json").read_text())
    for entry in record["vocabularies"].values():
        entry["fingerprint"] = "0" * 64
    other = tmp_path / "other"
    (other / "checkpoints").mkdir(parents=True)
    (other / "run.json").write_text(json.dumps(record))
    (trained.folder / "checkpoints/step-00000002").rename(other / "checkpoints/step-00000002")
    try:
        with pytest.raises(UserError, match=rf"--warm_start_from={other}: the run in {other} has another vocabulary"):
            make_run(tmp_path / "run", {"warm_start_from": str(other)}, train_steps=1).fit()
    finally:
        (other / "checkpoints/step-00000002").rename(trained.folder / "checkpoints/step-00000002")
    assert not (tmp_path / "run/run.json").exists()


def test_a_later_end_of_a_falling_rate_is_warned_about(make_run, tmp_path, caplog):
    falling = {"learning_rate_schedule": "linear", "learning_rate": 0.01}
    make_run(tmp_path / "run", train_steps=1, **falling).fit()
    with caplog.at_level(logging.WARNING, "t2t"):
        make_run(tmp_path / "run", train_steps=2, **falling).fit()
    assert "train_steps was 1 and is 2 now: the linear schedule falls to the new end" in caplog.text


def test_a_later_end_of_any_other_rate_is_not(make_run, tmp_path, caplog):
    make_run(tmp_path / "run", train_steps=1).fit()
    with caplog.at_level(logging.WARNING, "t2t"):
        make_run(tmp_path / "run", train_steps=2).fit()
    assert "have changed" not in caplog.text
    assert "train_steps" not in caplog.text
