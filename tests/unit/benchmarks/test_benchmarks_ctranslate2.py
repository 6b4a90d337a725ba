"""The driver of CTranslate2 gives it our model."""

import numpy as np
import pytest

from benchmarks.harness.weights import LONGEST, sinusoids
from benchmarks.peers.ctranslate2 import build_translator
from tests.builders import numpy
from tests.letters import WORDS, letters, translator_of

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
