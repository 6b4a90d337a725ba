"""The position-wise feed-forward sub-layer: section 3.3; and mixtures of such experts, few of which a position uses.

Experts: Shazeer et al. 2017 (arXiv:1701.06538). Every position gets the experts that its gate chooses, however many
positions choose the same: experts have no capacity limit, and no example depends on the others of its batch. Positions
are sorted by expert into blocks of one expert each, and all blocks are multiplied at once.

Legend: B batch, T length, N positions (B * T), D width, F inner width, E experts, K experts of a position, A = N * K
assignments, G blocks of R assignments of one expert.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.dropout import Dropout, GivenSeed, SeededLayer
from t2t.layers.mode import add_cost, counted
from t2t.layers.tensors import Tensor, at_most, by_rows


class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (section 3.3, equation 2), applied to each position.

    `gated`: (max(0, x W_1 + b_1) * (x V + c)) W_2 + b_2, elementwise * (Shazeer 2020, arXiv:2002.05202, equations 5 and
    6, whose maps have no biases): with relu ReGLU, with gelu GEGLU, with silu SwiGLU.
    """

    def __init__(
        self, width: int, filter_size: int, activation: str, dropout: float, gated: bool = False, use_bias: bool = True,
        **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.width, self.filter_size = width, filter_size
        maps: dict[str, object] = {"use_bias": use_bias, "dtype": self.dtype_policy}
        self.inner = keras.layers.Dense(filter_size, activation=activation_function(activation), name="inner", **maps)
        self.linear = keras.layers.Dense(filter_size, name="linear", **maps) if gated else None
        self.outer = keras.layers.Dense(width, name="outer", **maps)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the maps for inputs (B, T, D)."""
        self.inner.build(input_shape)
        if self.linear is not None:
            self.linear.build(input_shape)
        self.outer.build((*input_shape[:-1], self.filter_size))
        self.dropout.build()

    def call(self, x_BTD, seed=None, keep_BT=None):
        """Returns (B, T, D); `keep_BT` is unused, and is there for `Experts`, which can replace this layer."""

        def of_rows(x_ND):
            inner_NF = self.inner(x_ND)
            if self.linear is not None:
                inner_NF = inner_NF * self.linear(x_ND)
            return self.outer(self.dropout(inner_NF, seed=seed))

        return by_rows(of_rows, x_BTD)


def activation_function(name: str) -> Callable:
    """Returns a Keras activation by name, or `gelu_tanh` or `gelu_sigmoid`.

    The latter are 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) and x sigmoid(1.702 x) (Hendrycks and Gimpel 2016,
    arXiv:1606.08415, section 2). All are computed in float32, but for relu, which rounds nothing: a processor takes
    twice as long for exponentials in 16 bits.
    """
    function: Callable = _GELUS[name] if name in _GELUS else keras.activations.get(name)
    if name in ("relu", "linear"):
        return function
    return lambda x: ops.cast(function(ops.cast(x, "float32")), x.dtype)


_GELUS: dict[str, Callable] = {
    "gelu_tanh": functools.partial(keras.activations.gelu, approximate=True),
    "gelu_sigmoid": lambda x: x * ops.sigmoid(1.702 * x),
}


BLOCK = 128
"""R: rows of a product. The last block of an expert may hold fewer assignments."""


class Gates(NamedTuple):
    """The experts that each position uses, and their weights."""

    experts: Tensor
    """(N, K) int32, best first."""
    weights: Tensor
    """(N, K) float32, which sum to 1."""
    importance: Tensor
    """(E,) float32: the sum of each expert's weights (equation 6)."""
    load: Tensor
    """(E,) float32: a smooth estimate of how many positions chose each expert (equation 10)."""


class ExpertScores(NamedTuple):
    """Scores by which experts are chosen, float32, with the experts on the last axis."""

    clean: Tensor
    noisy: Tensor
    """With noise in training (equation 4), else the same as `clean`."""
    spread: Tensor
    """The standard deviation of the noise."""


class ChosenExperts(NamedTuple):
    """The experts chosen by their scores."""

    experts: Tensor
    """(..., K) int32, best first."""
    weights: Tensor
    """(..., K) float32, which sum to 1."""
    chances: Tensor
    """(..., E) float32: the probability that an expert is chosen if its noise is drawn again (equations 8 and 9)."""


class NoisyScores(keras.layers.Layer):
    """Scores of E experts (section 2.1, equation 4); noise, only in training, spreads the load."""

    def __init__(self, experts: int, **kwargs):
        super().__init__(**kwargs)
        self.experts = experts
        self.noise = SeededLayer(name="noise")

    def build(self, input_shape):
        """Creates W_g and W_noise, (D, E) zeros each, so that at first the load is even (appendix A)."""
        # Scores are float32 in every precision, and so are their weights.
        zeros = {"shape": (input_shape[-1], self.experts), "initializer": "zeros", "autocast": False}
        self.gate_kernel = self.add_weight(name="gate_kernel", **zeros)
        self.noise_kernel = self.add_weight(name="noise_kernel", **zeros)
        self.noise.build()

    def scores(self, x_ND, seed=None) -> ExpertScores:
        """Returns the scores (N, E) of positions (N, D)."""
        x_ND = ops.cast(x_ND, "float32")
        clean_NE = ops.matmul(x_ND, ops.convert_to_tensor(self.gate_kernel))
        spread_NE = ops.softplus(ops.matmul(x_ND, ops.convert_to_tensor(self.noise_kernel))) + 1e-2
        noisy_NE = clean_NE
        if seed is not None:
            noise_seed = GivenSeed(self.noise.own_seed(seed))
            noisy_NE = clean_NE + spread_NE * keras.random.normal(ops.shape(clean_NE), dtype="float32", seed=noise_seed)
        return ExpertScores(clean_NE, noisy_NE, spread_NE)


def choose(scores: ExpertScores, chosen: int) -> ChosenExperts:
    """Returns the K best of E experts, K < E, by their noisy scores (equations 3 and 5)."""
    best, experts = ops.top_k(scores.noisy, chosen + 1)
    weights = ops.softmax(best[..., :chosen], axis=-1)
    last_in, first_out = best[..., -2:-1], best[..., -1:]
    # The K-th best of the other experts: for a chosen one, that is the first that is not chosen.
    threshold = ops.where(scores.noisy > first_out, first_out, last_in)
    chances = 0.5 * (1.0 + ops.erf((scores.clean - threshold) / (scores.spread * math.sqrt(2.0))))
    return ChosenExperts(ops.cast(experts[..., :chosen], "int32"), weights, chances)


class NoisyTopKGate(NoisyScores):
    """Chooses K of E experts, K < E (section 2.1, equations 3 to 5)."""

    def __init__(self, experts: int, chosen: int, **kwargs):
        super().__init__(experts, **kwargs)
        self.chosen = chosen

    def call(self, x_ND, keep_N, seed=None) -> Gates:
        """Returns the gates of positions (N, D); where `keep_N` bool is False they do not count in the sums."""
        choice = choose(self.scores(x_ND, seed), self.chosen)
        counts_N1 = ops.cast(keep_N, "float32")[:, None]
        chosen_NKE = ops.one_hot(choice.experts, self.experts, dtype="float32")
        importance_E = ops.sum(chosen_NKE * (choice.weights * counts_N1)[..., None], axis=(0, 1))
        return Gates(choice.experts, choice.weights, importance_E, ops.sum(choice.chances * counts_N1, axis=0))


def squared_variation(x_E):
    """Returns the square of the coefficient of variation (equations 7 and 11), () float32."""
    mean = ops.mean(x_E)
    return ops.mean(ops.square(x_E - mean)) / (ops.square(mean) + 1e-10)


class Experts(keras.layers.Layer):
    """sum over the chosen experts of their weight * FFN_e(x) (equation 1), FFN as in `FeedForward`, `gated` or not.

    It adds a cost to the mean loss so that experts are used evenly: w * (CV(importance)^2 + CV(load)^2) (equations 7
    and 11), where w is `balance`, in nats per target. Dropout acts on the inner activations. `gate` replaces that of
    the paper's section 2.1; its call has the same arguments and result.
    """

    def __init__(
        self, width: int, filter_size: int, experts: int, chosen: int, balance: float, activation: str,
        dropout: float, gated: bool = False, use_bias: bool = True, gate: Any = None, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.width, self.filter_size, self.balance = width, filter_size, balance
        self.gate = gate or NoisyTopKGate(experts, chosen, dtype=self.dtype_policy, name="gate")
        self.gated, self.use_bias = gated, use_bias
        self.activation = activation_function(activation)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Creates the experts' maps for inputs (B, T, D), each Glorot uniform."""
        experts, width, inner = self.gate.experts, self.width, self.filter_size
        glorot = keras.initializers.RandomUniform
        limit = (6.0 / (width + inner)) ** 0.5
        self.gate.build(input_shape)
        self.dropout.build()
        inward, outward = (experts, width, inner), (experts, inner, width)
        maps = {"inner": inward, "outer": outward} | ({"linear": inward} if self.gated else {})
        for name, shape in maps.items():
            setattr(self, name, self.add_weight(name=name, shape=shape, initializer=glorot(-limit, limit)))
        for name in ("inner", "linear", "outer"):
            if name in maps:
                shape = (experts, maps[name][-1])
                bias = self.add_weight(name=f"{name}_bias", shape=shape, initializer="zeros") if self.use_bias else None
                setattr(self, f"{name}_bias", bias)

    def call(self, x_BTD, seed=None, keep_BT=None):
        """Returns (B, T, D); positions where `keep_BT` (B, T) bool is False do not count in the cost; None = all do."""
        x_ND = ops.reshape(x_BTD, (-1, self.width))
        count = ops.shape(x_ND)[0]
        keep_N = ops.ones((count,), "bool") if keep_BT is None else ops.reshape(counted(keep_BT), (-1,))
        gates = self.gate(x_ND, keep_N, seed=seed)
        add_cost(self.balance * (squared_variation(gates.importance) + squared_variation(gates.load)))
        plan = group_by_expert(ops.reshape(gates.experts, (-1,)), self.gate.experts)
        found_AD = self._apply_experts(x_ND, plan, seed)
        weights_NK1 = ops.cast(gates.weights, x_BTD.dtype)[..., None]
        found_NKD = ops.reshape(found_AD, (-1, self.gate.chosen, self.width))
        return ops.reshape(ops.sum(found_NKD * weights_NK1, axis=1), ops.shape(x_BTD))

    def _apply_experts(self, x_ND, plan: "Blocks", seed):
        """Returns the output of each assignment's expert for its position, (A, D)."""
        padded_ND = ops.concatenate([x_ND, ops.zeros_like(x_ND[:1])], axis=0)
        position_M = ops.where(plan.held < 0, ops.shape(x_ND)[0], plan.held // self.gate.chosen)
        x_GRD = ops.reshape(ops.take(padded_ND, position_M, axis=0), (-1, BLOCK, self.width))

        def take_experts(weights):
            return ops.cast(ops.take(ops.convert_to_tensor(weights), plan.experts, axis=0), x_ND.dtype)

        def mapped(x, weights, biases):
            found = ops.matmul(x, take_experts(weights))
            return found if biases is None else found + take_experts(biases)[:, None]

        inner_GRF = self.activation(mapped(x_GRD, self.inner, self.inner_bias))
        if self.gated:
            inner_GRF = inner_GRF * mapped(x_GRD, self.linear, self.linear_bias)
        outer_GRD = mapped(self.dropout(inner_GRF, seed=seed), self.outer, self.outer_bias)
        return ops.take(ops.reshape(outer_GRD, (-1, self.width)), plan.places, axis=0)


class Blocks(NamedTuple):
    """Assignments arranged in blocks of one expert each, M = G * R slots, some of them empty."""

    held: Tensor
    """(M,) int32: the assignment in each slot; -1 = none."""
    places: Tensor
    """(A,) int32: the slot of each assignment."""
    experts: Tensor
    """(G,) int32: the expert of each block."""


def group_by_expert(expert_A, experts: int, block: int = BLOCK) -> Blocks:
    """Arranges assignments to experts, (A,) int32 in [0, E), in G = min(A, A // R + E) blocks, which always suffice.

    A block that is not empty holds at least one assignment, so that few assignments need few of the experts' matrices.
    """
    count = ops.shape(expert_A)[0]
    blocks = at_most(count, count // block + experts)
    order_A = ops.cast(ops.argsort(expert_A), "int32")
    sorted_A = ops.take(expert_A, order_A, axis=0)
    sizes_E = ops.sum(ops.one_hot(expert_A, experts, dtype="int32"), axis=0)
    blocks_E = (sizes_E + block - 1) // block
    first_block_E = ops.cumsum(blocks_E) - blocks_E
    first_E = ops.cumsum(sizes_E) - sizes_E
    within_A = ops.arange(count, dtype="int32") - ops.take(first_E, sorted_A, axis=0)
    sorted_place_A = ops.take(first_block_E, sorted_A, axis=0) * block + within_A
    held_M = ops.scatter(sorted_place_A[:, None], order_A + 1, (blocks * block,)) - 1
    place_A = ops.scatter(order_A[:, None], sorted_place_A, (count,))
    ends_E = ops.cumsum(blocks_E)
    after_GE = ops.arange(blocks, dtype="int32")[:, None] >= ends_E[None, :]
    expert_G = ops.minimum(ops.sum(ops.cast(after_GE, "int32"), axis=1), experts - 1)
    return Blocks(held_M, place_A, expert_G)
