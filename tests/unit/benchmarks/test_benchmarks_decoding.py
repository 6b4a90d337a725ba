"""A peer's figures count only if it does the same work: probabilities, lengths, losses, precisions."""

import math

import numpy as np
import pytest

from benchmarks.decoding import _check_scores
from benchmarks.harness.rows import OURS
from benchmarks.harness.turns import Turns
from benchmarks.harness.weights import LONGEST, sinusoids
from benchmarks.peers.ctranslate2 import build_translator
from benchmarks.training import OURS_16, _check_losses, _rivals
from tests.builders import numpy
from tests.letters import WORDS, letters, translator_of

SCORES = [-1.0, -20.0]
LENGTHS = [[5, 6, 7]] * 10


def check(ours, theirs, compute_type="float32", scores=SCORES, sentences=()):
    """Returns the peer after it was compared with our outputs."""
    sides = [
        Turns(name, [{"scores": of, "searches": {"4": {"outputs": outputs}, "1": {"outputs": []}}}])
        for name, of, outputs in (("t2t", SCORES, ours), ("peer", scores, theirs))
    ]
    _check_scores(sides, {"peer": {"compute_type": compute_type}}, sentences)
    assert bool(sides[1].figures) == (not sides[1].failure)
    return sides[1]


@pytest.mark.parametrize(
    ("scores", "compute_type", "is_kept"),
    [
        ([-1.0005, -20.01], "float32", True),
        ([-1.0, -20.1], "float32", False),
        ([-1.0, -25.0], "int8", True),
        ([math.nan, -20.0], "float32", False),
        ([-1.0, math.nan], "float32", False),
        ([-1.0, math.nan], "int8", False),
        ([-math.inf, -20.0], "int8", False),
    ],
)
def test_a_peer_of_other_probabilities_is_struck_out(scores, compute_type, is_kept):
    assert bool(check([], [], compute_type, scores).figures) == is_kept


@pytest.mark.parametrize(
    ("changed", "compute_type", "failure"),
    [(1, "float32", ""), (2, "float32", "80.0%"), (5, "int8", ""), (6, "int8", "40.0%")],
)
def test_a_peer_without_scores_is_judged_by_its_outputs(changed, compute_type, failure):
    """The last sentence does not count, since our output is twice as long as the input."""
    outputs = [*LENGTHS, [5, 6, 7, 8]]
    others = [[5, 6]] * changed + outputs[changed:10] + [[5]]
    peer = check(outputs, others, compute_type, scores=None, sentences=[[8, 9]] * 11)
    assert failure in peer.failure
    assert bool(failure) == bool(peer.failure)


@pytest.mark.parametrize(("count", "failure"), [(9, ()), (8, ("24", "30")), (12, ("36", "30"))])
def test_a_peer_that_writes_other_lengths_is_struck_out(count, failure):
    """Speeds in sentences per second are comparable only for outputs of similar length."""
    peer = check(LENGTHS, [[5, 6, 7]] * count, sentences=[[8, 9]] * 10)
    assert all(number in peer.failure for number in failure)
    assert bool(failure) == bool(peer.failure)


# === A peer's training speed counts only if its loss is close to ours; precisions are compared fairly ===
@pytest.mark.parametrize(
    ("losses", "is_kept"), [([7.0, 8.9], True), ([5.0, 5.0], True), ([7.0, 9.1], False), ([math.nan, 6.0], False)]
)
def test_a_peer_that_does_not_learn_is_struck_out(losses, is_kept):
    ours, peer = Turns("t2t", [{"loss": 6.0}]), Turns("peer", [{"loss": loss} for loss in losses])
    _check_losses([ours, peer])
    assert bool(peer.figures) == is_kept
    assert peer.failure == ("" if is_kept else f"its last loss is {losses[0]:.3g} nats a token, ours 6")


def test_float32_is_compared_with_float32_and_16_bits_with_the_better_of_both():
    speeds = {
        OURS: 5.0, OURS_16: 8.0, "hf_marian": 3.0, "hf_marian_bfloat16": 6.0, "torch_transformer": 4.0,
        "torch_transformer_bfloat16": 2.0, "keras_hub_bfloat16": 7.0,
    }  # fmt: skip
    taken = [Turns(name, [{"rate": speed}]) for name, speed in speeds.items()]
    rivals = [[side.name for side in sides] for sides in _rivals(taken, lambda figures: figures["rate"])]
    assert rivals == [
        [OURS, "hf_marian", "torch_transformer"],
        [OURS_16, "hf_marian_bfloat16", "torch_transformer", "keras_hub_bfloat16"],
    ]


# === The driver of CTranslate2 gives it our model ===
pytest.importorskip("ctranslate2")
PAIRS = [("a b c", "c b"), ("h", "a a a a d")]


def test_it_gives_targets_the_same_probabilities_as_we(tmp_path):
    translator = translator_of(letters())
    model = translator.model
    weights = {variable.path.partition("/")[2]: numpy(variable) for variable in model.variables}
    hparams = model.hparams.to_dict()["model"]
    table = sinusoids(LONGEST, hparams["hidden_size"], hparams["sinusoid_layout"])
    np.savez(tmp_path / "weights.npz", positions=table, **weights)
    driver = build_translator(
        {
            "result": str(tmp_path / "result"), "weights": str(tmp_path / "weights.npz"), "compute_type": "float32",
            "threads": 1, "sizes": {"vocab_size": WORDS.vocab_size, "hparams": hparams},
        }
    )  # fmt: skip
    sources, targets = (
        [[str(token) for token in WORDS.encode(text)] for text in side] for side in zip(*PAIRS, strict=True)
    )
    found = [sum(result.log_probs) for result in driver.score_batch(sources, targets)]
    assert found == pytest.approx(translator.score(PAIRS), rel=1e-4)
