"""The two ends of a model, chosen by the kinds of a problem's features or by name."""

from typing import NamedTuple

from t2t.errors import UserError
from t2t.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.hparams.sections import ModelHParams
from t2t.layers.modalities.base import Bottom, Top
from t2t.layers.modalities.tokens import TokenEmbedding, TokenSoftmax
from t2t.registry import MODALITIES

BOTTOMS = {
    FeatureKind.TOKENS: "token_embedding",
    FeatureKind.IMAGE: "small_image",
    FeatureKind.AUDIO: "log_mel_audio",
    FeatureKind.REAL: "real_vectors",
}
"""Of each kind of feature the modality that gives its vectors, unless another is named."""
TOPS = {FeatureKind.TOKENS: "token_softmax", FeatureKind.LABEL: "class_label", FeatureKind.REAL: "real_values"}
"""Of each kind of feature the modality that predicts it, unless another is named."""


class Ends(NamedTuple):
    """What stands between features and a body."""

    source: Bottom | None
    """None where a problem has no inputs."""
    target: Bottom | None
    """None where targets are not read, one by one, by what predicts the next."""
    top: Top


def build_ends(spec: ProblemSpec, hparams: ModelHParams, dtype_policy, reads_targets: bool = True) -> Ends:
    """Returns the unbuilt ends of a model.

    Args:
        spec: of the problem.
        hparams: of the model.
        dtype_policy: of the layers.
        reads_targets: False for a model that answers at once, which has no bottom of targets but one that is shared.

    Raises:
        UserError: a modality that is named for a kind of feature that it does not take.
    """
    width, source, target = hparams.hidden_size, None, None
    if spec.targets.kind == FeatureKind.TOKENS:
        target = TokenEmbedding(spec.targets, width, name="target_embedding", dtype=dtype_policy)
    if spec.inputs:
        bottom = _modality(Bottom, hparams.input_modality, spec.inputs)
        shared = hparams.shared_embedding and spec.shared_vocabulary and bottom is TokenEmbedding
        source = target if shared else bottom(spec.inputs, width, name="source_embedding", dtype=dtype_policy)
    top = _modality(Top, hparams.target_modality, spec.targets)
    settings = {"label_smoothing": hparams.label_smoothing, "label_smoothing_kind": hparams.label_smoothing_kind}
    if issubclass(top, TokenSoftmax) and hparams.shared_embedding_and_softmax_weights:
        settings["embedding"] = target
    if not reads_targets and target is not source and "embedding" not in settings:
        target = None
    return Ends(source, target, top(spec.targets, hparams.output_size, **settings, dtype=dtype_policy))


def _modality(base: type, name: str, feature: FeatureSpec) -> type:
    """Returns the class of a modality, the one named or that of the feature's kind."""
    chosen = name or (BOTTOMS if base is Bottom else TOPS)[feature.kind]
    found = MODALITIES.get(chosen)
    if not issubclass(found, base) or feature.kind not in found.kinds:
        role = "a bottom, which reads inputs" if issubclass(found, Bottom) else "a top, which predicts targets"
        kinds = ", ".join(sorted(found.kinds))
        raise UserError(f"modality {chosen!r} for {feature.kind}: it is {role}, for {kinds}; name another or none")
    return found
