"""The Transformer's encoder alone, for classification and as a masked language model.

Devlin et al. (2018, arXiv:1810.04805), section 3.1, task 1.

Legend: B batch, S source length, T target length, D width.
"""

from typing import ClassVar

from keras import ops

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.field import unread_complaints
from t2t.hparams.transformer import TransformerHParams
from t2t.layers.dropout import Dropout
from t2t.layers.masks import mean_of_kept
from t2t.layers.mode import Costs, in_mode, with_costs
from t2t.layers.positions import build_positions
from t2t.layers.tensors import Features, at_least
from t2t.models.base import READ_AS_VECTORS, SequenceModel
from t2t.models.transformer import Encoder, attended_inputs
from t2t.registry import register_model
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec

_WITHOUT_DECODER = {
    "decoder_layer": ("self_attention",), "num_decoder_layers": (0,), "target_space_embedding": (False,),
}  # fmt: skip
"""The values of hparams that nothing reads without a decoder."""


@register_model
class TransformerEncoder(SequenceModel):
    """The Transformer's encoder; the class is predicted from the mean of its output."""

    hparams_class = TransformerHParams
    accepts_inputs: ClassVar[tuple[FeatureKind | None, ...]] = READ_AS_VECTORS
    accepts_targets: ClassVar[tuple[FeatureKind, ...]] = (FeatureKind.LABEL,)
    autoregressive = False

    def __init__(self, hparams: TransformerHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, rate = self.dtype_policy, hparams.layer_prepostprocess_dropout
        vectors = (hparams.positions, hparams.max_length, hparams.hidden_size, hparams.sinusoid_layout)
        self.positions = build_positions(*vectors, dtype=policy, name="positions")
        self.source_dropout = Dropout(rate, dtype=policy, name="source_dropout")
        self.encoder = Encoder(hparams, dtype=policy, name="encoder")
        self.build()

    @classmethod
    def check_hparams(cls, hparams: HParams) -> None:
        """Raises UserError for hparams of the decoder and of the target space; see the base class."""
        super().check_hparams(hparams)
        why = f"model {cls.__name__} is only an encoder, without a decoder and a target space"
        if found := unread_complaints(hparams, _WITHOUT_DECODER, why):
            raise UserError("; ".join(found))

    @classmethod
    def unread_hparams(cls, spec: ProblemSpec) -> dict[str, str]:
        """Adds the sizes of the decoder, which a checkpoint for a warm start may have; see the base class."""
        why = f"model {cls.__name__} has no decoder"
        return super().unread_hparams(spec) | dict.fromkeys(("num_decoder_heads", "decoder_filter_size"), why)

    @property
    def longest_sequence(self) -> int | None:
        """The length of the table of learned positions; sinusoids have no limit."""
        return self.hparams.max_length if self.hparams.positions == "learned" else None

    def body(self, features: Features, seed=None):
        """Returns the hidden states of `answer`, (B, D), as `Costed` if layers add costs to the loss."""
        inputs = features[INPUTS]
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), attended_inputs(self, inputs)
        x_BSD = self.positions(x_BSD) if self.positions is not None else x_BSD
        costs = Costs()
        with in_mode(costs=costs):
            x_BSD = self.encoder(self.source_dropout(x_BSD, seed=seed), keep_BS, seed=seed)
        return with_costs(self.answer(x_BSD, keep_BS, features), costs)

    def answer(self, x_BSD, keep_BS, features: Features):
        """Returns the output layer's input: the mean of the encoder's output (B, S, D) where `keep_BS` is True."""
        return mean_of_kept(x_BSD, keep_BS)


@register_model
class TransformerMlm(TransformerEncoder):
    """A masked language model: the Transformer's encoder predicts the words that its input hides.

    Problems named `..._masked` hide words of the input; the targets are these words, at the same positions. Weights
    have the same names as in `transformer_encoder`, which can start from them with `--warm_start_from`.
    """

    hparams_class = TransformerHParams
    accepts_inputs = (FeatureKind.TOKENS,)
    accepts_targets = (FeatureKind.TOKENS,)
    shared_table: ClassVar[str] = "source_embedding"

    @classmethod
    def registered_name(cls) -> str:
        """Returns the prefix of `TransformerEncoder`, so that the variables have the same paths."""
        return TransformerEncoder.registered_name()

    def answer(self, x_BSD, keep_BS, features: Features):
        """Returns the encoder's output at the positions of the targets, (B, T, D), zeros where inputs hold no data."""
        x_BSD = x_BSD * ops.cast(keep_BS, x_BSD.dtype)[..., None]
        if TARGETS not in features:
            return x_BSD
        count = ops.shape(features[TARGETS])[1]
        missing = at_least(0, count - ops.shape(x_BSD)[1])  # 0 for a masked text, whose targets are as long
        return ops.pad(x_BSD, ((0, 0), (0, missing), (0, 0)))[:, :count]
