"""What is decoded does not hang on what stands beside it; and exact ties break one way."""

import random

import numpy as np
import pytest

from t2t.constants import EOS_ID
from t2t.hparams.sections import DecodeHParams
from t2t.inference import Translator
from tests.builders import tiny_transformer
from tests.letters import letters

TEXTS = ["a b c", "d", "h g f e d c b a", "d", "a b c", "", "d d", "e e e e e e", "d"]
WAYS = [
    {"beam_size": 4, "alpha": 0.6},
    {"beam_size": 3, "alpha": 0.0},
    {"beam_size": 2, "length_penalty": "power", "alpha": 1.0},
    {"decode_method": "greedy"},
]


def translator(level):
    """A translator of a random model, or of one to which every id is always as likely as any other."""
    problem = letters()
    model = tiny_transformer(problem.spec(), seed=3, hidden_size=16)
    if level:
        model.target_embedding.table.assign(np.zeros(model.target_embedding.table.shape))
    return Translator(problem, model, DecodeHParams(extra_length=4))


def in_every_company(subject, changes):
    """Yields what is found for TEXTS as one batch, in other orders, batches and company, and alone."""
    places = list(range(len(TEXTS)))
    orders = [places, places[::-1], random.Random(1).sample(places, len(places)), places * 3]
    orders += [[place] for place in places]
    for order in orders:
        for decode_batch_size in (1, 40, 4096):
            ways = {**changes, "decode_batch_size": decode_batch_size}
            yield order, subject.translate([TEXTS[place] for place in order], changes.get("beam_size", 1), **ways)


@pytest.mark.parametrize("changes", WAYS, ids=str)
def test_exact_ties_break_one_way_in_every_company(changes):
    expected = {}
    for order, found in in_every_company(translator(level=True), changes):
        for place, outputs in zip(order, found, strict=True):
            outputs = [(one.ids, one.score, one.log_prob) for one in outputs]
            assert expected.setdefault(TEXTS[place], outputs) == outputs
    if not changes.get("alpha"):  # nothing is gained by length, and of tokens the lowest that may be written wins
        assert {outputs[0][0] for outputs in expected.values()} == {(EOS_ID,)}


@pytest.mark.parametrize("changes", WAYS[::3], ids=str)
def test_the_same_is_found_in_every_company(changes):
    expected = {}
    for order, found in in_every_company(translator(level=False), changes):
        for place, outputs in zip(order, found, strict=True):
            first = expected.setdefault(TEXTS[place], outputs)
            assert [one.ids for one in outputs] == [one.ids for one in first]
            np.testing.assert_allclose([one.score for one in outputs], [one.score for one in first], rtol=1e-5)
    assert len({outputs[0].ids for outputs in expected.values()}) > 3
