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


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        # 512^-0.5 = 0.0441942; 4000^-1.5 = 3.95285e-6
        (1, 1.746928e-7),
        (100, 1.746928e-5),
        (4000, 6.987712e-4),  # 0.0441942 / sqrt(4000): the peak that the paper's base model has
        (100_000, 1.397542e-4),  # 0.0441942 / sqrt(100000)
    ],
)
def test_noam(update, expected):
    assert rate(update, "noam", 1.0, 4000) == pytest.approx(expected, rel=1e-6)
    assert rate(update, "noam", 2.0, 4000) == pytest.approx(2 * expected, rel=1e-6)
    assert rate(update, "noam", 1.0, 4000, hidden_size=128) == pytest.approx(2 * expected, rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "factor", "warmup", "minimum", "expected"),
    [
        # at updates 1, 100, 4000 and 100,000
        ("rsqrt_decay", 1.0, 10_000, 0.0, (0.01, 0.01, 0.01, 100_000**-0.5)),
        ("inverse_sqrt", 0.005, 2000, 0.0, (2.5e-6, 2.5e-4, 0.005 * 0.70710678, 0.005 * 0.14142136)),
        ("constant", 0.1, 4000, 0.0, (2.5e-5, 2.5e-3, 0.1, 0.1)),
        ("linear", 0.002, 4000, 1e-4, (5e-7, 5e-5, 0.002, 1e-4)),
        ("cosine", 0.002, 4000, 1e-4, (5e-7, 5e-5, 0.002, 1e-4)),
    ],
)
def test_the_other_shapes(shape, factor, warmup, minimum, expected):
    for update, wanted in zip((1, 100, 4000, 100_000), expected, strict=True):
        assert rate(update, shape, factor, warmup, minimum) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "quarter", "half"),
    [
        # 4,000 + 24,000 of 96,000 updates, and 4,000 + 48,000: 1e-4 + 0.0019 times what is left
        ("linear", 1e-4 + 0.0019 * 0.75, 1e-4 + 0.0019 * 0.5),
        ("cosine", 1e-4 + 0.0019 * (1 + 0.70710678) / 2, 1e-4 + 0.0019 * 0.5),
    ],
)
def test_decays_between_warm_up_and_end(shape, quarter, half):
    assert rate(28_000, shape, 0.002, 4000, 1e-4) == pytest.approx(quarter, rel=1e-6)
    assert rate(52_000, shape, 0.002, 4000, 1e-4) == pytest.approx(half, rel=1e-6)
    assert rate(150_000, shape, 0.002, 4000, 1e-4) == pytest.approx(1e-4, rel=1e-6)


@pytest.mark.parametrize("shape", ["noam", "inverse_sqrt", "constant", "linear", "cosine"])
def test_warm_up_meets_what_follows_and_never_exceeds_it(shape):
    peak = rate(400, shape, 0.5, 400)
    assert rate(399, shape, 0.5, 400) == pytest.approx(peak * 399 / 400, rel=1e-6)
    assert max(rate(update, shape, 0.5, 400) for update in range(1, 2000, 7)) <= peak


@pytest.mark.parametrize("update", [1, 100, 9_999, 10_000, 10_001, 250_000])
def test_rsqrt_decay_has_the_relative_steps_of_adafactor(update):
    """min(0.01, s^-0.5): Shazeer and Stern 2018, algorithm 6."""
    assert rate(update, "rsqrt_decay", 1.0, 10_000) == pytest.approx(min(1e-2, update**-0.5), rel=1e-12)


@pytest.mark.parametrize("shape", ["inverse_sqrt", "constant", "linear", "cosine"])
def test_without_warm_up_the_first_update_has_the_peak_rate(shape):
    assert rate(1, shape, 0.5, 0) == 0.5


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_a_run_shorter_than_its_warm_up_only_rises(shape):
    assert rate(10, shape, 0.5, 100, train_steps=10) == pytest.approx(0.05)
