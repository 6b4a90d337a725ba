"""The LSTM translator with mixtures of experts: residual LSTM layers, and experts between two of them.

Source of the network and, unless a line says otherwise, of the values: Shazeer et al., *Outrageously Large Neural
Networks: The Sparsely-Gated Mixture-of-Experts Layer* (2017, arXiv:1701.06538), section 5.3 and appendix E. With x_0
the words, every layer and every mixture adds to its input:

    x_i = x_(i-1) + Dropout(LSTM_i(x_(i-1))),  x' = x + Dropout(sigmoid(MoE(x)))

A mixture is called once on all positions of a sequence. The decoder can do so because only its bottom layer attends to
the source: the layers above it read whole sequences.

Legend: B batch, S source length, T target length, D width, U units of a cell, N rows or positions, G gate inputs of a
cell. Of experts in two levels: P groups of M experts each, J groups of a position, and J experts in each of them, so
that E = P * M experts, of which a position uses K = J * J.
"""

from dataclasses import dataclass

from t2t.hparams.base import for_copying, for_multi30k
from t2t.hparams.field import param
from t2t.hparams.lstm import RecurrentHParams, for_recurrent
from t2t.hparams.transformer_moe import expert_complaints
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class LstmMoeHParams(RecurrentHParams):
    """An encoder of num_hidden_layers, a decoder with one layer fewer, and a mixture of experts in each."""

    cell_units: int = param(
        0, "Units of each LSTM, whose hidden state is projected to hidden_size channels (Sak et al. 2014); 0 = "
        "hidden_size units without projection.", minimum=0, only_shapes=True,
    )  # fmt: skip
    num_experts: int = param(
        8, "Number of experts of each of the two mixtures, over all groups.", minimum=2, only_shapes=True
    )
    experts_per_token: int = param(
        2, "Number k of experts that each position uses, less than num_experts; with groups, k groups and k experts in "
        "each.",
        minimum=1,
    )  # fmt: skip
    expert_groups: int = param(
        0, "Number of groups of a two-level mixture, chosen by a separate gate (appendix B); 0 = one level.",
        minimum=0,
    )  # fmt: skip
    expert_balance: float = param(
        0.01, "Weight of the two load-balancing losses, in nats per target (equations 7 and 11).", minimum=0.0,
        only_trains=True,
    )  # fmt: skip
    filter_size: int = param(2048, "Inner width of an expert, in channels.", minimum=1, only_shapes=True)

    def complaints(self) -> list[str]:
        """Checks for two or more encoder layers, no projection of GRUs, and more groups and experts than are used."""
        found = expert_complaints(self)
        if self.num_hidden_layers < 2:
            found.append(
                f"hparam num_hidden_layers={self.num_hidden_layers}: experts are between two layers of the encoder; "
                f"give 2 or more"
            )
        if self.cell_units and self.cell != "lstm":
            found.append(f"hparam cell_units={self.cell_units}: cell={self.cell} has no projection; give 0")
        if self.expert_groups:
            each, rest = divmod(self.num_experts, self.expert_groups)
            if rest or self.experts_per_token >= min(self.expert_groups, each):
                found.append(
                    f"hparam expert_groups={self.expert_groups}: give a divisor of num_experts={self.num_experts} that "
                    f"makes groups, and experts in each of them, more than experts_per_token={self.experts_per_token}"
                )
        return found


@register_hparams
def lstm_moe_32() -> LstmMoeHParams:
    """The paper's MoE-32: 3+2 layers of 2,048 units projected to 512, 32 experts of which each position uses 4."""
    # The paper names neither a rate nor Adam's constants. It holds the rate from update 2,000 to 10,000, where this one
    # still rises; from there on both fall with the inverse root. One table of 32,000 pieces serves both languages.
    return for_recurrent(LstmMoeHParams(hidden_size=512, num_hidden_layers=3, cell_units=2048)).replace(
        num_experts=32,
        experts_per_token=4,
        dropout=0.4,
        label_smoothing=0.0,
        shared_embedding_and_softmax_weights=False,
        batch_size=4096,
        learning_rate=0.001,
        learning_rate_warmup_steps=10_000,
        alpha=0.2,  # search as in GNMT
        coverage_penalty=0.2,
    )


@register_hparams
def lstm_moe_512() -> LstmMoeHParams:
    """The paper's MoE-512: two levels, 2 of 16 groups and 2 of the 32 experts in each."""
    # The number of groups is that of the paper's language models (appendix C); for translation it names none.
    return lstm_moe_32().replace(num_experts=512, expert_groups=16, experts_per_token=2)


@register_hparams
def lstm_moe_2048() -> LstmMoeHParams:
    """The paper's MoE-2048: two levels, 2 of 16 groups and 2 of the 128 experts in each."""
    return lstm_moe_512().replace(num_experts=2048)


@register_hparams
def lstm_moe_multi30k_tiny() -> LstmMoeHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 3+2 layers of 192 units projected to 96, 2 of 8 experts."""
    sizes = LstmMoeHParams(hidden_size=96, num_hidden_layers=3, cell_units=192, filter_size=208)
    return for_multi30k(for_recurrent(sizes)).replace(dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500)


@register_hparams
def lstm_moe_tiny() -> LstmMoeHParams:
    """Learns to copy and reverse in minutes on two processor cores: 3+2 layers of 64 units, 2 of 4 experts."""
    sizes = LstmMoeHParams(hidden_size=64, num_hidden_layers=3, filter_size=128, num_experts=4)
    return for_copying(for_recurrent(sizes))


# === The network ===
from collections.abc import Callable
from typing import Any

from keras import ops

from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.feed_forward import ChosenExperts, Experts, ExpertScores, Gates, NoisyScores, choose
from t2t.layers.loops import scan
from t2t.layers.recurrent import CellState, RecurrentLayer, build_cell
from t2t.layers.recurrent_decoder import DecoderState, FactoredAttention, Memory
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Tensor
from t2t.models.lstm import LstmSeq2seq
from t2t.registry import register_model


class HierarchicalGate(CompositeLayer):
    """Chooses J of P groups, and J of the M experts in each of these (appendix B, equation 12); J < P, J < M.

    The weight of an expert is that of its group times its own within the group.
    """

    def __init__(self, experts: int, groups: int, chosen: int, **kwargs):
        super().__init__(**kwargs)
        self.experts, self.groups, self.chosen_each, self.chosen = experts, groups, chosen, chosen**2
        self.primary = NoisyScores(groups, dtype=self.dtype_policy, name="primary")
        # The gates within the groups, side by side.
        self.secondary = NoisyScores(experts, dtype=self.dtype_policy, name="secondary")

    def call(self, x_ND, keep_N, seed=None) -> Gates:
        """Returns the gates of positions (N, D); expert m of group p has index p * M + m. See `NoisyTopKGate`."""
        size = self.experts // self.groups
        outer = choose(self.primary.scores(x_ND, seed), self.chosen_each)
        first_N1 = self.groups * ops.arange(ops.shape(x_ND)[0], dtype="int32")[:, None]

        def of_chosen_groups(scores_NE):
            return ops.take(ops.reshape(scores_NE, (-1, size)), first_N1 + outer.experts, axis=0)

        inner = choose(ExpertScores(*map(of_chosen_groups, self.secondary.scores(x_ND, seed))), self.chosen_each)
        experts_NJJ = size * outer.experts[..., None] + inner.experts
        weights_NJJ = outer.weights[..., None] * inner.weights
        importance_E, load_E = self._sums(outer, inner, ops.cast(keep_N, "float32")[:, None])
        shape = (-1, self.chosen)
        return Gates(ops.reshape(experts_NJJ, shape), ops.reshape(weights_NJJ, shape), importance_E, load_E)

    def _sums(self, outer: ChosenExperts, inner: ChosenExperts, counts_N1) -> tuple[Tensor, Tensor]:
        """Returns importance and load (E,) (equations 13 and 14), over the positions that count."""
        size = self.experts // self.groups
        visits_NJP = ops.one_hot(outer.experts, self.groups, dtype="float32") * counts_N1[..., None]
        shares_NJM = ops.sum(ops.one_hot(inner.experts, size, dtype="float32") * inner.weights[..., None], axis=2)
        importance_PM = ops.einsum("njp,njm->pm", visits_NJP, shares_NJM * outer.weights[..., None])
        load_P1 = ops.sum(outer.chances * counts_N1, axis=0)[:, None]
        visits_P1 = ops.sum(visits_NJP, axis=(0, 1))[:, None]
        inner_load_PM = ops.einsum("njp,njm->pm", visits_NJP, inner.chances)
        load_PM = load_P1 * inner_load_PM / ops.maximum(visits_P1, 1.0)
        return ops.reshape(importance_PM, (-1,)), ops.reshape(load_PM, (-1,))


class ResidualExperts(CompositeLayer):
    """x + Dropout(sigmoid(MoE(x)))."""

    def __init__(self, hparams: LstmMoeHParams, **kwargs):
        super().__init__(**kwargs)
        policy, groups = self.dtype_policy, hparams.expert_groups
        sizes, chosen = (hparams.hidden_size, hparams.filter_size), (hparams.num_experts, hparams.experts_per_token)
        gate = HierarchicalGate(chosen[0], groups, chosen[1], dtype=policy, name="gate") if groups else None
        maps = (*sizes, *chosen, hparams.expert_balance, "relu", 0.0)
        self.experts = Experts(*maps, gate=gate, dtype=policy, name="experts")
        self.dropout = Dropout(hparams.dropout, dtype=policy, name="dropout")

    def call(self, x, seed=None, keep_BT=None):
        """Returns (..., D), as `x`; positions where `keep_BT` bool is False do not count in the cost."""
        return x + self.dropout(ops.sigmoid(self.experts(x, seed=seed, keep_BT=keep_BT)), seed=seed)


def cell_of(hparams: LstmMoeHParams) -> dict[str, Any]:
    """Returns the arguments of a cell: of `cell_units` that are projected, or of `hidden_size`."""
    units, projection = hparams.cell_units or hparams.hidden_size, hparams.hidden_size if hparams.cell_units else 0
    return {"cell": hparams.cell, "units": units, "projection": projection}


class ExpertEncoder(CompositeLayer):
    """Forward layers, two or more, with experts before the last of them; dropout on words and each layer's output."""

    def __init__(self, hparams: LstmMoeHParams, **kwargs):
        super().__init__(**kwargs)
        policy, depth = self.dtype_policy, hparams.num_hidden_layers
        self.layers_ = [RecurrentLayer(**cell_of(hparams), dtype=policy, name=f"layer_{i}") for i in range(depth)]
        self.experts = ResidualExperts(hparams, dtype=policy, name="experts")
        self.dropouts = [Dropout(hparams.dropout, dtype=policy, name=f"dropout_{i}") for i in range(depth + 1)]

    def call(self, x_BSD, keep_BS, seed=None) -> tuple[object, tuple[CellState, ...]]:
        """Returns the output (B, S, D), and an initial CellState for each decoder layer, of which there is one fewer.

        Initial states are zeros: the decoder reads the source only by attention. `keep_BS` is bool, True at data.
        """
        x_BSD = self.dropouts[0](x_BSD, seed=seed)
        for i, layer in enumerate(self.layers_, start=1):
            if i == len(self.layers_):
                x_BSD = self.experts(x_BSD, seed=seed, keep_BT=keep_BS)
            x_BSD = x_BSD + self.dropouts[i](layer(x_BSD, keep_BS)[0], seed=seed)
        start = self.layers_[0].cell.zero_state(ops.shape(x_BSD)[0])
        return x_BSD, (start,) * (len(self.layers_) - 1)


class ExpertDecoder(CachingLayer):
    """A bottom layer that attends to the source, experts, and layers above them.

    The bottom layer attends with its hidden state before the step, and reads the context together with the word. There
    is one layer fewer than in the encoder.
    """

    def __init__(self, hparams: LstmMoeHParams, **kwargs):
        super().__init__(autocast=False, **kwargs)  # keeps the given states of cells float32
        self.width, policy, depth = hparams.hidden_size, self.dtype_policy, hparams.num_hidden_layers - 1
        self.bottom = build_cell(**cell_of(hparams), dtype=policy, name="bottom")
        self.attention = FactoredAttention(self.width, dtype=policy, name="attention")
        self.experts = ResidualExperts(hparams, dtype=policy, name="experts")
        self.upper = [RecurrentLayer(**cell_of(hparams), dtype=policy, name=f"layer_{i}") for i in range(1, depth)]
        self.dropouts = [Dropout(hparams.dropout, dtype=policy, name=f"dropout_{i}") for i in range(depth + 1)]

    def build(self, input_shape):
        """Builds every layer for (B, T, D)."""
        for layer in (self.bottom, self.attention, self.experts, *self.upper, *self.dropouts):
            layer.build((None, None, self.width))
        shape = (self.width, self.bottom.num_gates * self.bottom.units)
        self.context_kernel = self.add_weight(name="context_kernel", shape=shape)

    def memory(self, values_BSD, keep_BS) -> Memory:
        """Prepares the encoder's output (B, S, D) for attention."""
        return self.attention.memory(values_BSD, keep_BS)

    def start(self, layers: tuple[CellState, ...]) -> DecoderState:
        """Returns the state before the first step, from one state (N, U) per layer."""
        return DecoderState(layers, ops.zeros_like(layers[-1].hidden))

    def call(
        self, x, layers: tuple[CellState, ...], memory: Memory, keep_BT=None, cache: StepCache | None = None, seed=None
    ):
        """Returns the outputs (B, T, D) of all steps, or with a cache (N, D); see `RecurrentDecoder`."""
        if cache is not None:
            state = self.step(x, cache.state(self.path), memory)
            cache.set_state(self.path, state)
            return state.output
        x_BTD = self.dropouts[0](x, seed=seed)
        advance = self._bottom_stepper(memory)
        gates_TBG = self.bottom.input_gates(ops.transpose(x_BTD, (1, 0, 2)))
        _, states = scan(lambda before, given: advance(given[0], before), layers[0], (gates_TBG,))
        x_BTD = x_BTD + self.dropouts[1](ops.transpose(states.hidden, (1, 0, 2)), seed=seed)
        x_BTD = self.experts(x_BTD, seed=seed, keep_BT=keep_BT)
        for layer, dropout in zip(self.upper, self.dropouts[2:], strict=True):
            x_BTD = x_BTD + dropout(layer(x_BTD, keep_BT)[0], seed=seed)
        return x_BTD

    def empty_entry(self, rows, beams: int, length) -> None:
        """Returns None: the state before the first position depends on the source, see `start`."""

    def step(self, x_ND, state: DecoderState, memory: Memory) -> DecoderState:
        """Returns the state after one step; its `output` (N, D) is that of `call` at the same position."""
        after = [self._bottom_stepper(memory)(self.bottom.input_gates(x_ND), state.layers[0])]
        x_ND = self.experts(x_ND + after[0].hidden)
        for layer, before in zip(self.upper, state.layers[1:], strict=True):
            after.append(layer.cell.stepper()(layer.cell.input_gates(x_ND), before))
            x_ND = x_ND + after[-1].hidden
        return DecoderState(tuple(after), x_ND)

    def _bottom_stepper(self, memory: Memory) -> Callable:
        """Returns `step(gates_NG, state) -> CellState` of the bottom layer; gates are the gate inputs from the word."""
        advance, attend = self.bottom.stepper(), self.attention.stepper(memory)
        kernel = ops.cast(self.context_kernel, self.compute_dtype)

        def step(gates_NG, before: CellState) -> CellState:
            return advance(gates_NG + ops.matmul(attend(before.hidden), kernel), before)

        return step


@register_model
class LstmMoe(LstmSeq2seq):
    """LSTMs with attention and, in both stacks, a mixture of experts, flat or in two levels."""

    hparams_class = LstmMoeHParams

    def build_stacks(self, hparams: Any) -> tuple[ExpertEncoder, ExpertDecoder]:
        """Returns encoder and decoder; see the base class."""
        encoder = ExpertEncoder(hparams, dtype=self.dtype_policy, name="encoder")
        return encoder, ExpertDecoder(hparams, dtype=self.dtype_policy, name="decoder")
