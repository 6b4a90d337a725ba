"""What is decoded does not depend on the rest of the batch; and exact ties break one way."""

import random

import numpy as np
import pytest

from t2t.specs.constants import EOS_ID
from tests.letters import letters, translator_of

TEXTS = ["a b c", "d", "h g f e d c b a", "d", "a b c", "", "d d", "e e e e e e", "d"]


def in_every_company(translator, changes):
    """Yields the text and what is found for it: in batches of one and of many, in several orders, twice as often."""
    places = list(range(len(TEXTS)))
    for order in (places, places[::-1], random.Random(1).sample(places * 2, 2 * len(places))):
        for decode_batch_size in (1, 4096):
            texts, ways = [TEXTS[place] for place in order], {**changes, "decode_batch_size": decode_batch_size}
            yield from zip(texts, translator.translate(texts, changes.get("beam_size", 1), **ways), strict=True)


@pytest.mark.parametrize("changes", [{"beam_size": 4, "alpha": 0.0}, {"beam_size": 2, "alpha": 1.0}], ids=str)
@pytest.mark.slow
def test_exact_ties_break_one_way_in_every_company(changes):
    """Every id is always as likely as any other."""
    translator, expected = translator_of(letters(), num_hidden_layers=1), {}
    table = translator.model.target_embedding.table
    table.assign(np.zeros(table.shape))
    for text, outputs in in_every_company(translator, changes):
        outputs = [(one.ids, one.score, one.log_prob) for one in outputs]
        assert expected.setdefault(text, outputs) == outputs
    if not changes["alpha"]:  # nothing is gained by length, and of tokens the lowest that may be written wins
        assert {outputs[0][0] for outputs in expected.values()} == {(EOS_ID,)}


def test_the_same_is_found_in_every_company():
    separate = {"norm_position": "pre", "shared_embedding_and_softmax_weights": False}
    translator, expected = translator_of(letters(), hidden_size=16, **separate), {}
    for text, outputs in in_every_company(translator, {"beam_size": 3}):
        first = expected.setdefault(text, outputs)
        assert [one.ids for one in outputs] == [one.ids for one in first]
        np.testing.assert_allclose([one.score for one in outputs], [one.score for one in first], rtol=1e-5)
    assert len({one.ids for outputs in expected.values() for one in outputs}) > 6
