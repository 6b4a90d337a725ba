"""The LSTM translator with mixtures of experts (Shazeer et al. 2017, arXiv:1701.06538, section 5.3 and appendix E).

Legend: T target length.
"""

from typing import Any

from keras import ops

from t2t.hparams.lstm_moe import LstmMoeHParams
from t2t.layers.costs import gathered_costs, with_costs
from t2t.layers.lstm_moe import ExpertDecoder, ExpertEncoder, Mixture
from t2t.layers.masks import padding_keep
from t2t.models.lstm import LstmSeq2seq
from t2t.registry import register_model
from t2t.specs.constants import TARGETS


@register_model
class LstmMoe(LstmSeq2seq):
    """LSTMs with attention and, in both stacks, a mixture of experts, flat or in two levels."""

    hparams_class = LstmMoeHParams

    def build_stacks(self, hparams: Any) -> tuple[ExpertEncoder, ExpertDecoder]:
        """Returns encoder and decoder; see the base class."""
        cell = (hparams.cell, hparams.hidden_size, hparams.cell_units)
        mixture = Mixture(
            hparams.filter_size,
            hparams.num_experts,
            hparams.experts_per_token,
            hparams.expert_groups,
            hparams.expert_balance,
        )
        layers, dropout, policy = hparams.num_hidden_layers, hparams.dropout, self.dtype_policy
        encoder = ExpertEncoder(*cell, layers, mixture, dropout, dtype=policy, name="encoder")
        return encoder, ExpertDecoder(*cell, layers - 1, mixture, dropout, dtype=policy, name="decoder")

    def body(self, features: dict[str, Any], seed=None) -> Any:
        """Returns the decoder's output, (B, T, D), as `Costed` with the cost of the experts; see the base class."""
        targets_BT = features[TARGETS]
        with gathered_costs(features) as costs:
            encoded = self.encode(features, seed=seed)
            words_BTD = self.target_embedding.before(ops.pad(targets_BT[:, :-1], ((0, 0), (1, 0))), seed=seed)
            hidden_BTD = self.decoder(words_BTD, encoded.finals, encoded.memory, padding_keep(targets_BT), seed=seed)
        return with_costs(hidden_BTD, costs)
