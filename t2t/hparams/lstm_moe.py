"""Hparams of the LSTM translator with mixtures of experts: the paper's sizes and small ones.

Source of the values, unless a line says otherwise: Shazeer et al., *Outrageously Large Neural Networks: The
Sparsely-Gated Mixture-of-Experts Layer* (2017, arXiv:1701.06538), appendix E.
"""

from dataclasses import dataclass

from t2t.hparams.experts import expert_complaints
from t2t.hparams.field import param
from t2t.hparams.lstm import RecurrentHParams, for_recurrent
from t2t.hparams.recipes import for_copying, for_multi30k
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
