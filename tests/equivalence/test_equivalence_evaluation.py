"""Evaluating examples longer than any that was trained on: whole where the network can tell their positions."""

import pytest

from t2t.inference import Translator
from t2t.runs.evaluation import build_evaluator

SHORTER = {"max_length": 6, "train_steps": 1}


def test_longer_examples_than_those_of_training_count_whole(make_run, tmp_path, caplog):
    run = make_run(tmp_path / "run", **SHORTER)
    hparams, data = run.resolved.hparams, run.data
    reader, problem = data.readers["dev"], data.problem
    values, lengths = reader.read(range(len(reader)), "targets")
    assert max(lengths) > 6
    figures = build_evaluator(run.model, data, "dev", hparams, 0, ()).teacher_forced()
    targets = [problem.decode_target(values[end - n : end]) for end, n in zip(lengths.cumsum(), lengths, strict=True)]
    pairs = [(" ".join(reversed(target.split())), target) for target in targets]
    scores = Translator(problem, run.model, hparams.decode).score(pairs)
    assert figures["teacher_forced/loss"] == pytest.approx(-sum(scores) / lengths.sum(), rel=1e-5)
    assert "are cut" not in caplog.text


def test_learned_positions_and_the_limit_asked_for_cut_and_say_so(make_run, tmp_path, caplog):
    for name, changes, said in (
        ("learned", {"positions": "learned"}, "the model has positions for"),
        ("limit", {"max_input_length": 6}, "max_input_length allows"),
    ):
        run = make_run(tmp_path / name, **SHORTER, **changes)
        build_evaluator(run.model, run.data, "dev", run.resolved.hparams, 0, ())
        assert f"examples are longer than the 6 ids that {said} and are cut" in caplog.text
        caplog.clear()
