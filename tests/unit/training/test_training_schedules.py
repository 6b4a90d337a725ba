"""Learning rates by hand."""

import pytest

from t2t.hparams.groups import ScheduleHParams
from t2t.training.schedules import learning_rate


def rate(update, shape, factor, warmup, minimum=0.0, hidden_size=512, train_steps=100_000):
    schedule = ScheduleHParams(
        learning_rate_schedule=shape,
        learning_rate=factor,
        learning_rate_warmup_steps=warmup,
        learning_rate_minimum=minimum,
    )
    return learning_rate(schedule, update, hidden_size=hidden_size, train_steps=train_steps)


RATES = {
    # 512^-0.5 = 0.0441942; 4000^-1.5 = 3.95285e-6; at 4000 0.0441942 / sqrt(4000): the peak that the paper's base model
    # has
    "noam": ("noam", 1.0, 4000, 0.0, {1: 1.746928e-7, 100: 1.746928e-5, 4000: 6.987712e-4, 100_000: 1.397542e-4}),
    # min(0.01, s^-0.5), the relative steps of Adafactor: Shazeer and Stern 2018, algorithm 6
    "rsqrt_decay": (
        "rsqrt_decay", 1.0, 10_000, 0.0,
        {update: min(1e-2, update**-0.5) for update in (1, 100, 4000, 9_999, 10_000, 10_001, 100_000, 250_000)},
    ),
    "inverse_sqrt": (
        "inverse_sqrt", 0.005, 2000, 0.0,
        {1: 2.5e-6, 100: 2.5e-4, 4000: 0.005 * 0.70710678, 100_000: 0.005 * 0.14142136},
    ),
    "constant": ("constant", 0.1, 4000, 0.0, {1: 2.5e-5, 100: 2.5e-3, 4000: 0.1, 100_000: 0.1}),
    # 4,000 + 24,000 of 96,000 updates, and 4,000 + 48,000: 1e-4 + 0.0019 times what is left
    "linear": (
        "linear", 0.002, 4000, 1e-4,
        {1: 5e-7, 100: 5e-5, 4000: 0.002, 28_000: 1e-4 + 0.0019 * 0.75, 52_000: 1e-4 + 0.0019 * 0.5, 100_000: 1e-4,
         150_000: 1e-4},
    ),
    "cosine": (
        "cosine", 0.002, 4000, 1e-4,
        {1: 5e-7, 100: 5e-5, 4000: 0.002, 28_000: 1e-4 + 0.0019 * (1 + 0.70710678) / 2, 52_000: 1e-4 + 0.0019 * 0.5,
         100_000: 1e-4, 150_000: 1e-4},
    ),
}  # fmt: skip
"""Name -> shape, factor, warm-up, minimum, and rates by update."""


@pytest.mark.parametrize(("shape", "factor", "warmup", "minimum", "expected"), RATES.values(), ids=RATES)
def test_rates_by_hand(shape, factor, warmup, minimum, expected):
    for update, wanted in expected.items():
        assert rate(update, shape, factor, warmup, minimum) == pytest.approx(wanted, rel=1e-6)
        if shape == "noam":
            assert rate(update, shape, 2 * factor, warmup) == pytest.approx(2 * wanted, rel=1e-6)
            assert rate(update, shape, factor, warmup, hidden_size=128) == pytest.approx(2 * wanted, rel=1e-6)


@pytest.mark.parametrize("shape", ["noam", "inverse_sqrt", "constant", "linear", "cosine"])
def test_warm_up_meets_what_follows_and_never_exceeds_it(shape):
    peak = rate(400, shape, 0.5, 400)
    assert rate(399, shape, 0.5, 400) == pytest.approx(peak * 399 / 400, rel=1e-6)
    assert max(rate(update, shape, 0.5, 400) for update in range(1, 2000, 7)) <= peak
    if shape != "noam":
        assert rate(1, shape, 0.5, 0) == 0.5, "without warm-up"
    if shape in ("linear", "cosine"):
        assert rate(10, shape, 0.5, 100, train_steps=10) == pytest.approx(0.05), "a run shorter than its warm-up rises"
