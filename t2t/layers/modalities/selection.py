"""Selects the input and output modalities of a model by the kinds of a problem's features, or by name.

Legend: D width.
"""

from typing import NamedTuple

import keras

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.layers.modalities.base import Bottom, TokenEmbedding, TokenSoftmax, Top
from t2t.registry import MODALITIES
from t2t.registry.overrides import plugin_errors
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

BOTTOMS = {
    FeatureKind.TOKENS: "token_embedding",
    FeatureKind.IMAGE: "small_image",
    FeatureKind.AUDIO: "log_mel_audio",
    FeatureKind.REAL: "real_vectors",
    FeatureKind.VIDEO: "tubelet_video",
}
"""Default input modality of each kind of feature."""
TOPS = {FeatureKind.TOKENS: "token_softmax", FeatureKind.LABEL: "class_label", FeatureKind.REAL: "real_values"}
"""Default output modality of each kind of feature."""


class Modalities(NamedTuple):
    """Embeddings and output layer of a model."""

    source: Bottom | None
    """None where a problem has no inputs."""
    target: Bottom | None
    """None for a model that does not read its targets."""
    top: Top | None
    """None in a model that has modalities for each of several problems."""
    command: "Command | None" = None
    """Vector that identifies the problem to the body."""

    def build(self) -> None:
        """Creates the weights of all; a shared modality is built once."""
        for layer in (self.target, self.source, self.top, self.command):
            if layer is not None and not layer.built:
                layer.build()


class Command(keras.layers.Layer):
    """A problem's vector, with which decoding starts: Kaiser et al. 2017 (arXiv:1706.05137), section 2.4."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def build(self, input_shape=None):
        """Creates the vector (D,), normal with unit variance, as scaled embeddings have."""
        normal = keras.initializers.RandomNormal(stddev=1.0)
        self.vector = self.add_weight(name="vector", shape=(self.width,), initializer=normal)


class ProblemModalities(keras.layers.Layer):
    """The modalities of one of several problems; the layer has the problem's name."""

    def __init__(self, modalities: Modalities, **kwargs):
        super().__init__(**kwargs)
        self.modalities = modalities

    def build(self, input_shape=None):
        """Creates their weights."""
        self.modalities.build()


def build_modalities(
    spec: ProblemSpec,
    hparams: HParams,
    dtype_policy,
    reads_targets: bool = True,
    has_command: bool = False,
    shared_table: str = "target_embedding",
) -> Modalities:
    """Returns the unbuilt modalities of a model.

    A model that does not read its targets has a bottom for them only if it is shared. `has_command` gives the body a
    vector that identifies the problem; `shared_table` is the name of a table shared by inputs and targets.

    Raises:
        UserError: a modality named in the hparams does not support the kind of feature.
    """
    width, source, target = hparams.hidden_size, None, None
    of_tokens = {name: getattr(hparams, name) for name in ("symbol_dropout", "target_start", "target_start_id")}
    bottom = _modality(Bottom, hparams.input_modality, spec.inputs) if spec.inputs else None
    shared = hparams.shared_embedding and spec.shared_vocabulary and bottom is TokenEmbedding
    if spec.targets.kind == FeatureKind.TOKENS:
        name = shared_table if shared else "target_embedding"
        target = TokenEmbedding(spec.targets, width, name=name, dtype=dtype_policy, **of_tokens)
    if bottom is not None:
        own = of_tokens if issubclass(bottom, TokenEmbedding) else {}
        names = {"name": "source_embedding", "dtype": dtype_policy}
        with plugin_errors(bottom, "cannot be constructed"):
            source = target if shared else bottom(spec.inputs, width, **names, **own)
    top = _modality(Top, hparams.target_modality, spec.targets)
    settings = {"label_smoothing": hparams.label_smoothing, "label_smoothing_kind": hparams.label_smoothing_kind}
    if issubclass(top, TokenSoftmax):
        settings["has_bias"] = hparams.output_bias
        if hparams.shared_embedding_and_softmax_weights:
            settings["embedding"] = target
    if not reads_targets and target is not source and "embedding" not in settings:
        target = None
    with plugin_errors(top, "cannot be constructed"):
        top = top(spec.targets, hparams.output_size, **settings, dtype=dtype_policy)
    return Modalities(source, target, top, Command(width, name="command", dtype=dtype_policy) if has_command else None)


def shared_member(spec: ProblemSpec) -> ProblemSpec:
    """Returns the spec from which the shared modalities of all problems of a mixture are built.

    Raises:
        UserError: their features differ.
    """
    first = spec.members[0]
    for member in spec.members:
        if (member.features, member.shared_vocabulary) != (first.features, first.shared_vocabulary):
            sizes = [", ".join(f"{k} {f.kind} {f.vocab_size}" for k, f in m.features.items()) for m in (first, member)]
            raise UserError(
                f"the features of {first.name} ({sizes[0]}) and {member.name} ({sizes[1]}) differ",
                "generate the data of all problems with one --shared_vocab_file",
                hparam="shared_modalities",
                value="True",
            )
    return first


def hparams_of_members(spec: ProblemSpec, hparams: HParams) -> list[HParams]:
    """Returns the hparams of each problem of a mixture: only problems whose features it supports keep a named modality.

    If there are none, the first problem keeps it, so that building it raises the error.
    """
    own = [hparams.replace() for _ in spec.members]
    for field, features in (
        ("input_modality", [member.inputs for member in spec.members]),
        ("target_modality", [member.targets for member in spec.members]),
    ):
        name = getattr(hparams, field)
        kinds = MODALITIES.get(name).kinds if name else frozenset()
        takes = [feature is not None and feature.kind in kinds for feature in features]
        for of_member, is_taken in zip(own, takes, strict=True):
            setattr(of_member, field, name if is_taken else "")
        if own and name and not any(takes):
            setattr(own[0], field, name)
    return own


def _modality(base: type, name: str, feature: FeatureSpec) -> type:
    """Returns the class of a modality: the named one, or the default for the kind of feature."""
    chosen = name or (BOTTOMS if base is Bottom else TOPS)[feature.kind]
    found = MODALITIES.get(chosen)
    if not issubclass(found, base) or feature.kind not in found.kinds:
        role = "a bottom, which reads inputs" if issubclass(found, Bottom) else "a top, which predicts targets"
        kinds = ", ".join(sorted(found.kinds))
        raise UserError(f"modality {chosen!r} for {feature.kind}: it is {role}, for {kinds}", "name another or none")
    return found
