"""Evaluating examples longer than all training examples: not cut if the network supports their positions."""

import numpy as np
import pytest

from t2t.data.generate import generate
from t2t.hparams.transformer import transformer_tiny
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.problems.algorithmic import AlgorithmicReverseDecimal40
from t2t.runs.data import open_data
from t2t.runs.evaluation import build_evaluator, evaluate
from t2t.runs.names import Request
from t2t.runs.split_decoding import decode_and_score
from t2t.specs.constants import INPUTS, TARGETS
from tests.errors import refused

SHORTER = {"max_length": 6, "train_steps": 1, "beam_size": 1}


def test_longer_examples_than_those_of_training_count_whole(make_run, tmp_path, caplog):
    run = make_run(tmp_path / "run", **SHORTER)
    hparams, (data,) = run.resolved.hparams, run.data
    reader, problem = data.readers["dev"], data.problem
    values, lengths = reader.read(range(len(reader)), "targets")
    assert max(lengths) > 6
    figures = build_evaluator(run.model, data, "dev", hparams, 0, ()).teacher_forced()
    targets = [problem.decode_target(values[end - n : end]) for end, n in zip(lengths.cumsum(), lengths, strict=True)]
    pairs = [(" ".join(reversed(target.split())), target) for target in targets]
    scores = Translator(problem, run.model, hparams).score(pairs)
    assert figures["teacher_forced/loss"] == pytest.approx(-sum(scores) / lengths.sum(), rel=1e-5)
    assert "are cut" not in caplog.text


def test_learned_positions_and_the_limit_asked_for_cut_and_say_so(make_run, tmp_path, caplog):
    for name, changes, said in (
        ("learned", {"positions": "learned"}, "the model has positions for"),
        ("limit", {"max_input_length": 6}, "max_input_length allows"),
    ):
        run = make_run(tmp_path / name, **SHORTER, **changes)
        build_evaluator(run.model, run.data[0], "dev", run.resolved.hparams, 0, ())
        assert f"examples are longer than the 6 ids that {said} and are cut" in caplog.text
        caplog.clear()


def test_training_on_less_than_half_of_the_examples_is_refused(make_run, tmp_path, caplog):
    """Sequences have 2 to 10 ids; of these nine lengths four are above 6 and five above 5."""
    make_run(tmp_path / "most", max_length=6)
    assert "of the training examples of backwards (" in caplog.text
    assert "max_length (the longest has 10)" in caplog.text
    with refused("max_length=5", 120):
        make_run(tmp_path / "few", max_length=5)


def test_the_target_language_reaches_the_scores_of_decodes(make_run, tmp_path):
    run = make_run(tmp_path / "run", **SHORTER)
    hparams, (data,) = run.resolved.hparams, run.data
    data.problem.metrics, data.problem.target_language = ("bleu",), "zh"
    (evaluated,) = evaluate(run.model, hparams, data, "dev", 1, data.problem.metrics).scores
    _, (decoded,) = decode_and_score(Translator(data.problem, run.model, hparams), data, "dev")
    assert "|tok:zh|" in evaluated.signature
    assert "|tok:zh|" in decoded.signature


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_every_example_of_an_algorithmic_dev_split_counts(positions, tmp_path, caplog):
    """Training sequences have at most 41 ids, dev sequences 401; a table of learned positions has `max_length` rows."""

    class Few(AlgorithmicReverseDecimal40):
        name, train_size, dev_size = "few_reversed", 20, 30

    problem = Few()
    generate(problem, tmp_path, tmp_path / "tmp", seed=1, workers=1)
    data = open_data(Request(problem=problem.name, data_dir=str(tmp_path)), problem)
    sizes = {"num_hidden_layers": 1, "hidden_size": 8, "filter_size": 8}
    hparams = transformer_tiny().replace(positions=positions, max_length=128, **sizes).freeze()
    model = Transformer(hparams, data.problem.spec())
    lengths = data.readers["dev"].lengths(TARGETS)
    assert max(lengths) > 256

    found = evaluate(model, hparams, data, "dev", 0, ())
    assert (found.examples, found.of) == (30, 30)
    longer = int(np.sum(lengths > 128))
    if positions == "sinusoidal":
        assert "are cut" not in caplog.text
        tokens = lengths.sum()
    else:
        assert f"dev: {longer} examples are longer than the 128 ids that the model has positions for" in caplog.text
        tokens = np.minimum(lengths, 128).sum()
    batches = build_evaluator(model, data, "dev", hparams, 0, ())._batches
    assert sum(int((batch[TARGETS] > 0).sum()) for _, batch in batches) == tokens
    assert all(batch[INPUTS].shape[1] <= (401 if positions == "sinusoidal" else 128) for _, batch in batches)
