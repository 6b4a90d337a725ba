"""One update: its results computed by hand, and equal however it is split into replicas, micro-batches and padding.

Legend: B batch, S source length, T target length.
"""

import gc
import weakref

import numpy as np
import pytest

from t2t.backends.update import INITIAL_SCALE
from tests.builders import batch, batch_of, copies, random_pairs, tiny_transformer
from tests.equivalence.identity import arrays_of
from tests.slopes import slope_step, slopes, step_of, weights

# === By hand ===

SCALED = {"dtype": "float16", "scale_loss": True}
SUM = slopes([6.0, 3.0], tokens=3), slopes([2.0, 9.0], tokens=1)
"""(6 + 2) / (3 + 1) = 2 and (3 + 9) / 4 = 3. The mean of the replicas' means would be 2, by chance, and 5."""
STEEP = slopes([10.0, 0.0]), slopes([0.0, 10.0])
"""The sum over two tokens is [5, 5], clipped to [.7071, .7071]; if each were clipped first, they would be [.5, .5]."""
FEW = slopes([0.6, 0.3], tokens=3), slopes([0.2, 0.9], tokens=1)
"""(.6 + .2) / (3 + 1) = .2 and (.3 + .9) / 4 = .3, although in float16 four positions scale one, two the other."""
ROOT = np.sqrt(0.5)
BY_HAND = {
    "the sum over replicas divided by the global tokens": (
        {"replicas": 2}, 0.1, [([SUM], [-0.2, -0.3])], {"tokens": 4.0, "grad_norm": np.sqrt(2.0**2 + 3.0**2)},
    ),
    "the sum over micro-batches divided by all tokens, which is reset": (
        {}, 0.1, [([SUM[:1], SUM[1:]], [-0.2, -0.3]), ([[slopes([4.0, 0.0])], [slopes([0.0, 4.0])]], [-0.4, -0.5])], {},
    ),
    # bfloat16 has 8 bits: 257 and 256 + 1 become 256. Counts and gradients that stay local are not rounded.
    "what replicas send may be rounded to bfloat16": (
        {"replicas": 2, "reduction_dtype": "bfloat16"}, 1.0,
        [([[slopes([257.0, 3.0], tokens=257), slopes([1.0, 5.0], tokens=255)]], [-256 / 512, -8 / 512])],
        {"tokens": 512.0},
    ),
    "what stays local is not rounded": (
        {"reduction_dtype": "bfloat16"}, 1.0, [([[slopes([257.0, 3.0])]], [-257.0, -3.0])], {},
    ),
    "clipping comes after the reduction": (
        {"replicas": 2, "clip_grad_norm": 1.0}, 1.0, [([STEEP], [-ROOT, -ROOT])], {"grad_norm": np.sqrt(50.0)},
    ),
    "clipping comes after the sum of micro-batches": (
        {"replicas": 2, "clip_grad_norm": 1.0}, 1.0, [([STEEP, STEEP], [-ROOT, -ROOT])], {"grad_norm": np.sqrt(50.0)},
    ),
    "a gradient below the limit is not clipped": (
        {"clip_grad_norm": 1.0}, 1.0, [([[slopes([0.6, 0.3])]], [-0.6, -0.3])], {},
    ),
    "a steep gradient is clipped and its norm told": (
        {"clip_grad_norm": 2.0}, 1.0, [([[slopes([1e18, 0.0])]], [-2.0, 0.0])], {"grad_norm": np.float32(1e18)},
    ),
    # The square of 1e25 exceeds 3.4e38: the norm would be infinite, and a clipped update zero.
    "a norm beyond float32 is not applied": (
        {"clip_grad_norm": 1.0}, 1.0, [([[slopes([1e25, 0.0])]], None)], {"grad_norm": np.inf},
    ),
    "no tokens": ({}, 1.0, [([[slopes([1.0, 1.0], tokens=0)]], None)], {"tokens": 0.0}),
    "what is not finite in one micro-batch leaves no trace in the next update": (
        {}, 1.0,
        [([[slopes([np.nan, 0.0])], [slopes([1.0, 0.0])]], None),
         ([[slopes([1.0, 0.0])], [slopes([1.0, 0.0])]], [-1.0, 0.0])], {},
    ),
    **{
        f"a replica without data adds nothing{' in float16' if options else ''}": (
            {"replicas": 2, **options}, 1.0, [([[FEW[0], slopes([0.0, 0.0], tokens=0)]], [-0.2, -0.1])],
            {"tokens": 3.0},
        )
        for options in ({}, SCALED)
    },
    "float16 divides by the tokens of all replicas": ({"replicas": 2, **SCALED}, 1.0, [([FEW], [-0.2, -0.3])], {}),
    "float16 divides by the tokens of all micro-batches": (SCALED, 1.0, [([FEW[:1], FEW[1:]], [-0.2, -0.3])], {}),
}  # fmt: skip
"""Name -> options, rate, batches of each update with the weights after it (None: it is not applied), statistics."""


@pytest.mark.parametrize(("options", "rate", "updates", "statistics"), BY_HAND.values(), ids=BY_HAND)
def test_updates_by_hand(options, rate, updates, statistics):
    step, before = slope_step(**options), np.zeros(2)
    rtol = 1e-3 if "scale_loss" in options else 1e-6
    for number, (batches, expected) in enumerate(updates, start=1):
        stats = step(batches, number, rate)
        assert bool(stats.finite) == (expected is not None)
        before = before if expected is None else expected
        np.testing.assert_allclose(weights(step), before, rtol=rtol)
    for name, value in statistics.items():
        np.testing.assert_allclose(float(getattr(stats, name)), value, rtol=1e-6)
    assert step.skipped(len(updates)) == sum(expected is None for _, expected in updates)


def test_moving_average_by_hand():
    """Decay 0.9, weights 0 -> -1 -> -3: 0.9 * 0 + 0.1 * -1 = -0.1, then 0.9 * -0.1 + 0.1 * -3 = -0.39."""
    step = slope_step(replicas=2, ema_decay=0.9)
    for update, (slope, mean) in enumerate(((1.0, -0.1), (2.0, -0.39)), start=1):
        step([[slopes([slope, 0.0])] * 2], update, 1.0)
        np.testing.assert_allclose(copies(step.ema[0])[0], [mean, 0.0], rtol=1e-6)
    for variable in (step.model.w, step.ema[0]):
        np.testing.assert_array_equal(*copies(variable))  # every replica holds the same


def noise_of(step, update=1, rate=1.0):
    """Returns the noise times the rate: minus the change of the weights in an update with zero gradient."""
    before = weights(step)
    flat = slopes([0.0] * len(before))
    step([[flat] * step.replicas], update, rate)
    return before - weights(step)


def test_noise_is_normal_and_its_variance_falls_with_the_updates():
    """It falls as update^-0.55: Neelakantan et al. 2015, section 3."""
    step = slope_step(start=(0.0,) * 4000, gradient_noise=0.2)
    for update in range(1, 5):
        noise = noise_of(step, update)
        deviation = np.sqrt(0.04 / update**0.55)
        assert abs(noise.mean()) < 4 * deviation / np.sqrt(4000)
        np.testing.assert_allclose(noise.std(), deviation, rtol=0.05)
        within = np.mean(np.abs(noise) < deviation)
        assert abs(within - 0.683) < 0.03


def test_noise_is_a_function_of_seed_and_update_whatever_the_replicas_and_micro_batches():
    def fresh(replicas=1, seed=5):
        return slope_step(replicas, (0.0,) * 6, gradient_noise=0.2, run_seed=seed)

    one, two = fresh(), fresh(replicas=2)
    first, second = noise_of(one), noise_of(one, 2)
    np.testing.assert_array_equal(noise_of(two), first)
    np.testing.assert_allclose(noise_of(two, 2), second, atol=1e-7)
    cut = fresh()
    cut([[slopes([0.0] * 6)], [slopes([0.0] * 6)]], 1, 1.0)
    np.testing.assert_array_equal(-weights(cut), first)
    assert (np.abs(first - second * 2**0.275) > 1e-4).all()
    assert (np.abs(first - noise_of(fresh(seed=6))) > 1e-5).all()


def test_noise_falls_with_the_updates_of_the_run_whatever_the_optimizer_has_counted():
    """An optimizer's state that another run has left counts that run's updates, too."""
    fresh, warm = (slope_step(start=(0.0,) * 6, gradient_noise=0.2) for _ in range(2))
    warm.optimizer.iterations.assign(10_000)
    for update in (1, 2):
        np.testing.assert_array_equal(noise_of(warm, update), noise_of(fresh, update))


def test_noise_is_clipped_with_the_gradient_and_does_not_save_what_is_not_finite():
    step = slope_step(gradient_noise=100.0, clip_grad_norm=0.5)
    np.testing.assert_allclose(np.linalg.norm(noise_of(step)), 0.5, rtol=1e-5)
    step = slope_step(gradient_noise=0.1)
    assert not bool(step([[slopes([np.nan, 0.0])]], 1, 0.1).finite)
    np.testing.assert_array_equal(weights(step), [0.0, 0.0])


def test_no_rate_outlives_its_update():
    """TensorFlow would keep a tensor for every Python number passed to it: two kilobytes per update."""

    class Rate(float):
        __slots__ = ("__weakref__",)

    step, rate = slope_step(), Rate(0.25)
    step([[slopes([2.0, 4.0])]], 1, rate)
    np.testing.assert_array_equal(weights(step), [-0.5, -1.0])
    held = weakref.ref(rate)
    del rate
    gc.collect()
    assert held() is None


# === float16 ===
def test_loss_scale_halves_on_overflow_keeps_the_weights_and_recovers():
    """A slope of 6 and the mean over 2 targets overflow float16 (65504) at the initial scale 2^15, but not at 2^14."""
    step = slope_step(start=(1.0, 0.0), dtype="float16", scale_loss=True)
    steep = slopes([6.0, 0.0])
    assert float(step.loss_scale.value()) == INITIAL_SCALE == 2.0**15
    assert not bool(step([[steep]], 1, 1.0).finite)
    assert step.skipped(1) == 1
    assert float(step.loss_scale.value()) == 2.0**14
    np.testing.assert_array_equal(weights(step), [1.0, 0.0])
    stats = step([[steep]], 2, 1.0)
    assert bool(stats.finite)
    np.testing.assert_allclose(weights(step), [-5.0, 0.0])  # the gradient has been divided by the scale
    assert float(stats.grad_norm) == 6.0
    assert float(step.loss_scale.value()) == 2.0**14


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.slow
def test_float16_takes_a_batch_of_thousands_of_tokens_at_its_first_scale(micro_batches):
    """A sum over 4,000 tokens would overflow; the gradient equals that of float32 within the precision of float16."""
    big = batch(sources=[20] * 200, targets=[20] * 200)
    found = {}
    for dtype in ("float32", "mixed_float16"):
        step = step_of(lambda dtype=dtype: tiny_transformer(dtype=dtype), scale_loss=dtype == "mixed_float16")
        model = step.model
        before = {v.path: np.asarray(v) for v in model.trainable_variables}
        stats = step([[big]] * micro_batches, 1, 1.0)
        assert bool(stats.finite)
        assert float(stats.tokens) == 4000 * micro_batches
        found[dtype] = np.concatenate([np.ravel(before[v.path] - np.asarray(v)) for v in model.trainable_variables])
    assert float(step.loss_scale.value()) == INITIAL_SCALE
    norm = np.linalg.norm(found["float32"])
    assert np.linalg.norm(found["float32"] - found["mixed_float16"]) < 0.01 * norm


# === Splitting ===

SOURCES, TARGETS = (5, 3, 7, 2, 6, 4), (4, 6, 2, 9, 3, 1)


PAIRS = random_pairs(SOURCES, TARGETS)


def after_one_update(replicas, micro_batches):
    """Returns the changes of the weights, and statistics."""
    step = step_of(lambda: tiny_transformer(num_hidden_layers=1, seed=2), replicas)
    start = arrays_of(step.model)
    stats = step([[batch_of(some) for some in batches] for batches in micro_batches], 1, 0.05)
    return {path: array - start[path] for path, array in arrays_of(step.model).items()}, stats


@pytest.fixture(scope="module")
def in_one_piece():
    return after_one_update(1, [[PAIRS]])


@pytest.mark.parametrize(
    ("replicas", "cuts"),
    [
        pytest.param(2, [[slice(0, 2), slice(2, 6)]], marks=pytest.mark.slow),
        pytest.param(1, [[slice(0, 5)], [slice(5, 6)]], marks=pytest.mark.slow),
        (2, [[slice(0, 1), slice(1, 3)], [slice(3, 4), slice(4, 6)]]),
    ],
    ids=["two replicas", "two micro-batches", "two of each"],
)
def test_one_update_however_it_is_cut(in_one_piece, replicas, cuts):
    """Parts with different sizes, padding and numbers of tokens; no dropout."""
    whole, expected = in_one_piece
    cut, stats = after_one_update(replicas, [[PAIRS[part] for part in batches] for batches in cuts])
    assert float(stats.tokens) == float(expected.tokens) == sum(TARGETS)
    np.testing.assert_allclose(float(stats.loss_sum), float(expected.loss_sum), rtol=1e-5)
    np.testing.assert_allclose(float(stats.grad_norm), float(expected.grad_norm), rtol=1e-4)
    for name, value in whole.items():
        np.testing.assert_allclose(cut[name], value, rtol=2e-3, atol=1e-6, err_msg=name)
    assert max(np.abs(value).max() for value in whole.values()) > 0.01


# === Padding ===
@pytest.mark.parametrize("norm_position", ["post", pytest.param("pre", marks=pytest.mark.slow)])
def test_padding_changes_neither_loss_nor_gradients(norm_position):
    narrow, wide = batch(), batch(widths=(13, 11))
    wide = {name: np.pad(ids, ((0, 1), (0, 0))) for name, ids in wide.items()}
    assert wide["inputs"].shape == (4, 13)  # the last row is only padding
    (gradients, stats), (wide_gradients, wide_stats) = gradients_of({"norm_position": norm_position}, narrow, wide)
    assert float(stats.tokens) == float(wide_stats.tokens)
    np.testing.assert_allclose(float(stats.loss_sum), float(wide_stats.loss_sum), rtol=1e-6)
    for path, gradient in gradients.items():
        np.testing.assert_allclose(gradient, wide_gradients[path], rtol=1e-4, atol=1e-5, err_msg=path)


def gradients_of(changes, *batches):
    """Returns the gradients of the mean loss of each batch by path, from an SGD update with rate 1, and its stats."""
    step, found = step_of(lambda: tiny_transformer(num_hidden_layers=1, **changes)), []
    model, before = step.model, arrays_of(step.model)
    for update, one in enumerate(batches, start=1):
        for variable in model.variables:
            variable.assign(before[variable.path])
        stats = step([[one]], update, 1.0)
        after = arrays_of(model)
        found.append(({path.partition("/")[2]: array - after[path] for path, array in before.items()}, stats))
    return found


def test_the_embedding_of_padding_is_never_read():
    """Its gradient comes only from the output layer; with a separate output table it is zero."""
    tables = {"shared_embedding": False, "shared_embedding_and_softmax_weights": False}
    ((gradients, _),) = gradients_of(tables, batch(widths=(13, 11)))
    for name in ("source_embedding", "target_embedding"):
        gradient = gradients[f"{name}/table"]
        assert not gradient[0].any()
        assert np.abs(gradient[2:]).max() > 1e-4
