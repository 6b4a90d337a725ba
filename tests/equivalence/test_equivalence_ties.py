"""Outputs do not depend on the rest of the batch, and exact ties are broken consistently."""

import random

import numpy as np
import pytest

from t2t.specs.constants import EOS_ID
from tests.letters import letters, translator_of

TEXTS = ["a b c", "d", "h g f e d c b a", "d", "a b c", "", "d d", "e e e e e e", "d"]


def in_every_company(translator, changes):
    """Yields each text and its outputs, in several orders and with repeated texts, in batches of one and of many."""
    places = list(range(len(TEXTS)))
    for order in (places, places[::-1], random.Random(1).sample(places * 2, 2 * len(places))):
        for decode_batch_size in (1, 4096):
            texts, ways = [TEXTS[place] for place in order], {**changes, "decode_batch_size": decode_batch_size}
            yield from zip(texts, translator.translate(texts, changes.get("beam_size", 1), **ways), strict=True)


@pytest.mark.parametrize("changes", [{"beam_size": 4, "alpha": 0.0}, {"beam_size": 2, "alpha": 1.0}], ids=str)
@pytest.mark.slow
def test_exact_ties_break_one_way_in_every_company(changes):
    """All ids are always equally likely."""
    translator, expected = translator_of(letters(), num_hidden_layers=1), {}
    table = translator.model.target_embedding.table
    table.assign(np.zeros(table.shape))
    for text, outputs in in_every_company(translator, changes):
        outputs = [(one.ids, one.score, one.log_prob) for one in outputs]
        assert expected.setdefault(text, outputs) == outputs
    if not changes["alpha"]:  # longer outputs do not score higher, and the lowest allowed id wins
        assert {outputs[0][0] for outputs in expected.values()} == {(EOS_ID,)}


@pytest.mark.parametrize("changes", [{"beam_size": 3}, {"decode_method": "greedy"}], ids=["beam", "greedy"])
def test_the_same_is_found_in_every_company(changes):
    separate = {"norm_position": "pre", "shared_embedding_and_softmax_weights": False}
    translator, expected = translator_of(letters(), hidden_size=16, **separate), {}
    for text, outputs in in_every_company(translator, changes):
        first = expected.setdefault(text, outputs)
        assert [one.ids for one in outputs] == [one.ids for one in first]
        for figure in ("score", "log_prob"):
            found, wanted = ([getattr(one, figure) for one in several] for several in (outputs, first))
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len({one.ids for outputs in expected.values() for one in outputs}) > 2 * changes.get("beam_size", 1)
