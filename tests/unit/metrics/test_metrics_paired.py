"""Paired bootstrap resampling: consequences of its definition, and agreement with sacreBLEU."""

import random

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from t2t.metrics.paired import paired_bootstrap
from tests.errors import refused

RNG = random.Random(5)
REFERENCES = [" ".join(RNG.choices("abcdefgh", k=9)) for _ in range(60)]


def damaged(share):
    rng = random.Random(share)
    return [" ".join("x" if rng.random() < share else word for word in line.split()) for line in REFERENCES]


SYSTEMS = [("base", damaged(0.3)), ("same", damaged(0.3)), ("good", damaged(0.1))]


def test_a_large_difference_is_significant_and_none_is_not():
    found = paired_bootstrap(SYSTEMS, REFERENCES, {"bleu": {"tokenize": "none"}, "ter": {}}, 200)
    assert [(one.metric, one.system) for one in found] == [
        (metric, system) for metric in ("BLEU", "TER") for system in ("base", "same", "good")
    ]
    for base, same, good in (found[:3], found[3:]):
        assert base.p_value is None
        assert same.p_value == 1.0
        assert good.p_value < 0.05
        assert same.value == base.value
        assert abs(base.mean - base.value) < base.interval
    assert str(found[2]).startswith(f"good: BLEU = {found[2].value:.2f} ({found[2].mean:.2f} +- ")
    assert ", p = 0.00" in str(found[2])
    assert "* | nrefs:1|bs:200|seed:12345|case:mixed|eff:no|tok:none|" in str(found[2])


def test_the_numbers_are_sacrebleus():
    (_, own) = paired_bootstrap(SYSTEMS[1:], REFERENCES, {"bleu": {}})
    _, found = PairedTest(SYSTEMS[1:], {"BLEU": BLEU()}, [REFERENCES], "bs")()
    direct = found["BLEU"][1]
    assert (own.value, own.p_value, own.mean, own.interval) == (
        direct.score, direct.p_value, direct.mean, direct.ci,
    )  # fmt: skip


def test_systems_of_other_lengths_are_refused():
    with refused(59, 60):
        paired_bootstrap([SYSTEMS[0], ("short", REFERENCES[1:])], REFERENCES, {"bleu": {}})
