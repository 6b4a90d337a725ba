"""Base classes of sequence models: what every model has, and models of an encoder and a decoder.

Legend: B batch, S source length, T target length, D width, V vocabulary, N rows decoded together (B times beams).
"""

import functools
import logging
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import keras
from keras import ops

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.field import unread_complaints
from t2t.hparams.groups import MASK_PREDICT
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.beams import reorder_rows
from t2t.layers.cache import Cache, CachingLayer, FusedWeights, StepCache, empty_cache, layers_within, reorder_entries
from t2t.layers.losses import TargetScores, token_weights
from t2t.layers.masks import padding_keep
from t2t.layers.modalities.base import TokenSoftmax
from t2t.layers.modalities.selection import (
    Modalities,
    ProblemModalities,
    build_modalities,
    hparams_of_members,
    shared_member,
)
from t2t.layers.mode import Costed, Costs, in_mode, with_costs, without_costs
from t2t.layers.residual import build_parts
from t2t.layers.tensors import Features, Size, Tensor
from t2t.registry.overrides import PluginError, check_overrides, described
from t2t.specs import INPUTS, PAD_ID, POSITIONS, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec, select_problem_entries

log = logging.getLogger("t2t")

# Layers count on these; a user's ~/.keras/keras.json may have others.
keras.config.set_floatx("float32")
keras.config.set_image_data_format("channels_last")

READ_AS_VECTORS = (FeatureKind.TOKENS, FeatureKind.IMAGE, FeatureKind.AUDIO, FeatureKind.REAL, FeatureKind.VIDEO)
"""Kinds of inputs that a modality turns into a sequence of vectors, for models that read any such sequence."""


class DecodeContext(NamedTuple):
    """Values that stay the same at every decoding step."""

    encoded: Any
    """What the model's `encode` returned."""
    weights: Any
    """What the model's `decode_weights` returned."""
    top: Any
    """What the output layer's `decode_weights` returned."""
    allowed: Tensor | None = None
    """(N, V) bool, or (N, V') for selected tokens: those that each row may write; None for all."""


class SequenceModel(keras.Model):
    """A model built from hparams and the spec of a problem.

    Every weight exists after construction, so that a checkpoint can be restored before the first batch. Dropout is
    active only in calls with a seed.

    A model of several problems has one body, and separate modalities for each problem unless the hparam
    `shared_modalities` is set. `for_problem` returns the model of one problem.

    Args:
        hparams: of the class `hparams_class`.
        spec: the problem's features, or those of the members of a mixture.
        dtype: Keras dtype policy, e.g. `mixed_bfloat16`; weights, norms, softmax and losses stay float32.
    """

    hparams_class: ClassVar[type[HParams]] = HParams
    """Class of the model's hparams; hparams sets of other classes are rejected."""
    accepts_inputs: ClassVar[tuple[FeatureKind | None, ...]] = (FeatureKind.TOKENS, None)
    """Kinds of inputs that the model takes; None = a problem without inputs."""
    accepts_targets: ClassVar[tuple[FeatureKind, ...]] = (FeatureKind.TOKENS,)
    """Kinds of targets that the model predicts."""
    vocabulary_layers: ClassVar[Mapping[str, tuple[str, ...]]] = {
        INPUTS: ("source_embedding",),
        TARGETS: ("target_embedding", "top"),
    }
    """Feature -> attributes with the layers that have a row of weights for each of its ids."""
    autoregressive: bool = True
    """Whether targets are decoded one by one, with `encode`, `init_cache` and `decode_step`.

    Otherwise `call` on the inputs alone gives the logits of the whole output at once.
    """
    mask_predicts: ClassVar[bool] = False
    """Whether a model that is not autoregressive decodes by mask-predict, see `t2t.models.transformer_cmlm`.

    `call` reads only the number of targets, and gives the logits of all of them.
    """
    has_command: ClassVar[bool] = False
    """Whether a vector identifies the problem to the body, see `command`."""
    shared_table: ClassVar[str] = "target_embedding"
    """Name of the table shared by inputs and targets, part of its variable's path."""
    compiles_with_xla: ClassVar[bool] = True
    """Whether XLA can compile its training: not where a gradient goes through `keras.ops.scan` or `while_loop`."""
    packs_examples: ClassVar[bool] = False
    """Whether the body takes packed rows of several examples, with their positions as features, see `POSITIONS`."""
    hparams: Any
    """Of the class `hparams_class`."""
    source_embedding: Any
    """A `Bottom`; None without inputs. All modalities are None in a model of several problems."""
    target_embedding: Any
    """A `Bottom`; None where targets are not read."""
    top: Any
    """A `Top`."""
    command: Any
    """A `Command`, or None."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        check_overrides(cls)

    def __init__(self, hparams: HParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        # No autocasting: `call` reads features unchanged, like `body`, and each layer casts its own operands.
        super().__init__(dtype=dtype, autocast=False, name=kwargs.pop("name", type(self).registered_name()), **kwargs)
        self.check_accepts(spec)
        self.check_hparams(hparams)
        self.hparams, self.spec = hparams, spec
        is_shared = hparams.shared_modalities
        members = [] if is_shared else zip(spec.members, hparams_of_members(spec, hparams), strict=True)
        self.problem_modalities = {
            member.name: ProblemModalities(self._modalities_of(member, own), name=member.name)
            for member, own in members
        }
        self.autoregressive = self.writes(spec)
        if spec.members and not is_shared:
            own = Modalities(None, None, None)
        else:
            own = self._modalities_of(shared_member(spec) if spec.members else spec, hparams)
        self.source_embedding, self.target_embedding, self.top, self.command = own

    def _modalities_of(self, spec: ProblemSpec, hparams: HParams) -> Modalities:
        return build_modalities(
            spec, hparams, self.dtype_policy, self.reads_targets(spec), self.has_command, self.shared_table
        )

    @classmethod
    def writes(cls, spec: ProblemSpec) -> bool:
        """Returns whether the model predicts a problem's targets one by one; see `autoregressive`."""
        return cls.autoregressive

    @classmethod
    def reads_targets(cls, spec: ProblemSpec) -> bool:
        """Returns whether the model reads a problem's targets: the preceding ones, or those that are not masked."""
        return cls.writes(spec) or cls.mask_predicts

    def for_problem(self, name: str) -> Self:
        """Returns the model of one problem: the shared body with the problem's modalities.

        The result shares every weight, and its variables are those of all problems.
        """
        if not self.spec.members:
            return self
        spec = self.spec.member(name)
        # A copy that bypasses Keras, which would track the layers as new ones of a built model.
        view = object.__new__(type(self))
        view.__dict__.update(vars(self), spec=spec, autoregressive=self.writes(spec))
        if name in self.problem_modalities:
            modalities = self.problem_modalities[name].modalities
            names = ("source_embedding", "target_embedding", "top", "command")
            view.__dict__.update(zip(names, modalities, strict=True))
        return view

    @classmethod
    def registered_name(cls) -> str:
        """Returns the prefix of all its variables' paths; one word, the same in every process."""
        return cls.__name__.lower()

    @classmethod
    def check_accepts(cls, spec: ProblemSpec) -> None:
        """Raises UserError if the model does not support the kinds of features, or these problems in one model."""
        for member in spec.members:
            cls.check_accepts(member)
        if spec.members:
            has, lacks = ([m.name for m in spec.members if bool(m.inputs) == wanted] for wanted in (True, False))
            if has and lacks:
                raise UserError(
                    f"{has[0]} has inputs and {lacks[0]} has not, for which a body has other layers",
                    "train those with inputs together, and those without",
                    option="problems",
                    value=spec.name,
                )
            return
        inputs = spec.inputs.kind if spec.inputs else None
        for side, kind, accepted in (
            ("inputs", inputs, cls.accepts_inputs),
            ("targets", spec.targets.kind, cls.accepts_targets),
        ):
            if kind not in accepted:
                raise UserError(
                    f"model {cls.__name__} with problem {spec.name}: its {side} are {kind or 'absent'}, the model "
                    f"takes {', '.join(str(k or 'none') for k in accepted)}",
                    "choose another model or problem",
                )

    @classmethod
    def check_hparams(cls, hparams: HParams) -> None:
        """Raises UserError for packed batches or a `decode_method` that the model does not support.

        A row of a packed batch holds several examples, which the model must keep apart.
        """
        if hparams.decode_method == MASK_PREDICT and not cls.mask_predicts:
            raise UserError(
                f"model {cls.__name__} predicts no masked tokens",
                "choose another decode_method, or train transformer_cmlm",
                hparam="decode_method",
                value=MASK_PREDICT,
            )
        if hparams.packed_length and not cls.packs_examples:
            raise UserError(
                f"model {cls.__name__} takes one example a row",
                "set packed_length=0, or train transformer, transformer_bart, transformer_lm or transformer_moe",
                hparam="packed_length",
                value=hparams.packed_length,
            )
        if hparams.packed_length and hparams.rows_per_example > 1:
            raise UserError(
                f"objective={hparams.objective} samples outputs for one example a row",
                "set packed_length=0, or objective=likelihood",
                hparam="packed_length",
                value=hparams.packed_length,
            )

    @classmethod
    def unread_hparams(cls, spec: ProblemSpec) -> dict[str, str]:
        """Returns the hparams that nothing reads in a model of the problems, name -> why; subclasses add theirs."""
        found: dict[str, str] = {}
        if cls.has_command or not cls.writes(spec):
            instead = "begins with the vector of the problem" if cls.has_command else "reads no previous targets"
            found |= dict.fromkeys(("target_start", "target_start_id"), f"model {cls.__name__} {instead}")
        if all(member.targets.kind != FeatureKind.TOKENS for member in spec.members or [spec]):
            why = f"the targets of problem {spec.name} are not tokens"
            found |= dict.fromkeys(("output_bias", "shared_embedding_and_softmax_weights"), why)
        return found

    @classmethod
    def check_new(cls, hparams: HParams, named_set: HParams, spec: ProblemSpec) -> None:
        """Raises UserError for hparams that make no sense in a new run; a recorded run that has them still loads.

        They are changes of the set `named_set` that nothing reads: its own values may be for other models.
        """
        found = []
        for name, why in cls.unread_hparams(spec).items():
            allowed = dict.fromkeys((hparams.field_of(name).default, getattr(named_set, name)))
            found += unread_complaints(hparams, {name: tuple(allowed)}, why)
        if found:
            raise UserError("; ".join(found))

    def vocabulary_weights(self, features: Collection[str]) -> set[str]:
        """Returns the paths of the variables that belong to the vocabularies of these features.

        The features of several problems have the names that `t2t.specs.features.merge_problem_entries` gives them.

        Raises:
            UserError: `vocabulary_layers` lacks one of the features.
        """
        if self.spec.members:
            names = [member.name for member in self.spec.members]
            own = {name: select_problem_entries(dict.fromkeys(features), name) for name in names}
            return set().union(*(self.for_problem(name).vocabulary_weights(own[name]) for name in names))
        silent = [name for name in features if name not in self.vocabulary_layers]
        if silent:
            raise UserError(
                f"model {type(self).__name__} does not say which of its weights belong to the vocabulary of "
                f"{', '.join(silent)}",
                "name their layers in its vocabulary_layers",
            )
        layers = [getattr(self, attribute) for name in features for attribute in self.vocabulary_layers[name]]
        return {variable.path for layer in layers if layer is not None for variable in layer.variables}

    @property
    def longest_sequence(self) -> int | None:
        """Longest supported sequence, in ids with end of sequence; None for any length."""
        return None

    def build(self, input_shape=None):
        """Creates every weight: those of the modalities, then of the other layers in the order of their creation.

        A model overrides it where a layer reads other than `hidden_size` channels, or where it has weights of its own.
        """
        self.build_modality_weights()
        build_parts(self, (None, None, self.hparams.hidden_size))

    def build_modality_weights(self) -> None:
        """Creates the weights of the modalities; every model's `build` begins with it.

        Raises:
            UserError: images with more positions than the model has vectors for.
        """
        self._check_images()
        Modalities(self.source_embedding, self.target_embedding, self.top, self.command).build()
        for modalities in self.problem_modalities.values():
            modalities.build()

    def _check_images(self) -> None:
        for spec in self.spec.members or [self.spec]:
            is_image = spec.inputs is not None and spec.inputs.kind == FeatureKind.IMAGE
            if not is_image or self.longest_sequence is None:
                continue
            count = self.for_problem(spec.name).source_embedding.positions_of(1)
            if count > self.longest_sequence:
                raise UserError(
                    f"it is also the number of learned vectors of positions, and an image of problem {spec.name} has "
                    f"{count} positions",
                    f"set max_length={count} or more, or choose an input_modality with fewer positions",
                    hparam="max_length",
                    value=self.longest_sequence,
                )

    def body(self, features: Features, seed=None):
        """Returns the hidden states before the output layer, (B, T, D), or them as `Costed`.

        A model that is not autoregressive gives (B, D) for a class; of the targets it reads at most their number.
        With inputs alone, it gives (B, P, D) for as many positions P as it can write.

        Args:
            features: `targets` (B, T) int32 and, where the problem has them, `inputs` (B, S) int32, zero padded.
            seed: (2,) integer seed of the dropout masks; None = no dropout.
        """
        raise self._unwritten("body")

    def logits(self, hidden):
        """Returns (..., V) float32 for hidden states (..., D), or `Costed` ones."""
        return self.top(without_costs(hidden))

    def loss_sum(self, hidden, targets):
        """Returns the training loss summed over tokens, in nats, and the number of tokens, both float32 scalars.

        `hidden` is what `body` returned, whose costs are part of the loss; `targets` are (B, T) int32.
        """
        if not isinstance(hidden, Costed):
            return self.top.loss_sum(hidden, targets)
        loss_sum, tokens = self.top.loss_sum(hidden.hidden, targets)
        return loss_sum + hidden.cost + tokens * hidden.cost_per_target, tokens

    def score_targets(self, features: Features) -> TargetScores:
        """Returns the scores of the targets, each given those before it, (B, T), or (B,) for classes.

        Unlike `call`, it holds the logits of tokens for only a block of positions at a time.
        """
        hidden, targets = self.body(features), features[TARGETS]
        scores = self.top.score_targets(without_costs(hidden), targets)
        if self.spec.targets.kind != FeatureKind.TOKENS:
            return scores
        return scores._replace(log_probs=scores.log_probs * token_weights(targets))

    def call(self, features: Features, seed=None):
        """Returns the logits of every target position, (B, T, V) float32, each seeing the targets before it.

        A model that is not autoregressive does not see them, and may be called without targets; see `body`.
        """
        return self.logits(self.body(features, seed=seed))

    def source_keep(self, inputs):
        """Returns which inputs attention to the source may read, (B, S) bool: by default all data."""
        return self.source_embedding.keep(inputs)

    def encode(self, features: Features) -> Any:
        """Returns the encoded source, computed once per sentence: any structure with leading axis B."""
        raise self._unwritten("encode")

    def _unwritten(self, method: str) -> Exception:
        return PluginError(f"{described(type(self))}: it has no {method}", "write one, see docs/new_model.md")

    def init_cache(self, encoded: Any, rows: Size, length: Size | None, beams: int = 1) -> Any:
        """Returns the initial state of decoding.

        Args:
            encoded: what `encode` returned.
            rows: N, the number of hypotheses decoded together; int or () int32.
            length: most ids that will be decoded, int or () int32; None if shapes may grow with every step.
            beams: number of neighbouring rows that may be reordered among themselves, see `reorder_cache`.

        Returns:
            A structure with leading axis N, or N / beams. With `length=None`, axes of size 0 grow.
        """
        raise self._unwritten("init_cache")

    def prepare_decode(
        self, encoded: Any, token_ids: Tensor | None = None, allowed: Tensor | None = None, weights: Any = None
    ) -> DecodeContext:
        """Prepares decoding, once for many steps; the result is the `encoded` of `decode_step`.

        If `selects_tokens`, logits can be restricted: to the tokens `token_ids`, (V',) int32, and by `allowed`,
        (N, V') bool, which sets those that a row may not write to -inf. `weights` is what `step_weights(token_ids)`
        returned, if it was called before.
        """
        of_layers, of_top = self.step_weights(token_ids) if weights is None else weights
        return DecodeContext(encoded, of_layers, of_top, allowed)

    def step_weights(self, token_ids: Tensor | None = None) -> tuple[Any, Any]:
        """Returns the weights that steps read, of the layers and of the output layer, as structures of tensors."""
        top = self.top.decode_weights() if token_ids is None else self.top.decode_weights(token_ids)
        return self.decode_weights(), top

    @property
    def selects_tokens(self) -> bool:
        """Whether `prepare_decode` takes `token_ids`: the output layer is a table with a row for each token."""
        return self.autoregressive and isinstance(self.top, TokenSoftmax)

    def decode_weights(self) -> Any:
        """Returns weights in the layout that decoding steps read; any structure of tensors, empty by default."""
        return ()

    def decode_step(self, ids_N, position, cache: Any, encoded: Any) -> tuple[Tensor, Any]:
        """Returns the logits (N, V) float32 of the next id, and the new cache.

        Args:
            ids_N: (N,) int32, the last id of each hypothesis; PAD_ID at position 0, where nothing came before.
            position: int32 scalar, the number of ids before the one to predict.
            cache: what `init_cache` or the last step returned.
            encoded: what `encode` or `prepare_decode` returned; row n belongs to sentence n // (N / B).
        """
        prepared = encoded if isinstance(encoded, DecodeContext) else self.prepare_decode(encoded)
        hidden_ND, cache = self.step(ids_N, position, cache, prepared)
        logits_NV = self.top(hidden_ND, prepared.top)
        if prepared.allowed is not None:
            logits_NV = ops.where(prepared.allowed, logits_NV, -float("inf"))
        return logits_NV, cache

    def step(self, ids_N, position, cache: Any, prepared: DecodeContext) -> tuple[Tensor, Any]:
        """Returns the hidden states (N, D) before the output layer, and the new cache; see `decode_step`."""
        raise self._unwritten("step")

    def reorder_cache(self, cache: Any, beams: Tensor) -> Any:
        """Reorders the rows of the cache: `beams`, (N / K, K) int32, says which row of its group each row continues."""
        return reorder_rows(cache, beams)


class EncoderDecoder(SequenceModel):
    """A model of two functions: `encode` reads the source, `decode` returns a hidden state after each target.

    Training calls `decode` on all targets at once; decoding calls it on the last one, with a cache. Each layer manages
    its own entry of the cache, see `t2t.layers.cache`.
    """

    def encode(self, features: Features, seed=None) -> Any:
        """Returns the encoded source: any structure with leading axis B; None without inputs."""
        raise self._unwritten("encode")

    def decode(self, ids, encoded: Any, keep_BT=None, cache: StepCache | None = None, seed=None) -> Tensor:
        """Returns the hidden states from which the next targets are predicted, (B, T, D), or with a cache (N, D).

        Args:
            ids: (B, T) int32, the target before each position; with a cache (N,), the one before its position.
            encoded: what `encode` returned; with a cache, row n reads sentence n // (N / B).
            keep_BT: bool, True at positions that hold data; None = all.
            cache: in a decoding step; None for whole sequences.
            seed: of dropout.
        """
        raise self._unwritten("decode")

    def body(self, features: Features, seed=None) -> Tensor | Costed:
        """Returns the decoder's output, (B, T, D), as `Costed` if layers add costs to the loss; see the base class."""
        targets_BT = features[TARGETS]
        costs = Costs(features)
        with in_mode(costs=costs):
            encoded = self.encode(features, seed=seed)
            shifted_BT = ops.pad(targets_BT[:, :-1], ((0, 0), (1, 0)))
            packing: dict[str, Any] = {}
            if POSITIONS[TARGETS] in features:
                packing = {"position_BT": features[POSITIONS[TARGETS]]}
                shifted_BT = ops.where(ops.equal(packing["position_BT"], 0), PAD_ID, shifted_BT)
            hidden_BTD = self.decode(shifted_BT, encoded, keep_BT=padding_keep(targets_BT), seed=seed, **packing)
        return with_costs(hidden_BTD, costs)

    @functools.cached_property
    def _caching_layers(self) -> list[CachingLayer]:
        return [layer for layer in layers_within(self) if isinstance(layer, CachingLayer)]

    def init_cache(self, encoded: Any, rows: Size, length: Size | None, beams: int = 1) -> Cache:
        """Returns empty cache entries for all layers that read earlier positions; see the base class."""
        return empty_cache(self._caching_layers, rows, length, beams)

    def decode_weights(self) -> dict[str, FusedWeights]:
        """Returns the fused query, key and value weights of each cached self-attention, by its path."""
        attentions = (layer for layer in self._caching_layers if isinstance(layer, MultiHeadAttention))
        return {layer.path: layer.fused_weights() for layer in attentions if layer.is_cached}

    def step(self, ids_N, position, cache: Cache, prepared: DecodeContext) -> tuple[Tensor, Cache]:
        """Returns (N, D) and the cache with this position; see the base class."""
        step_cache = StepCache(cache, position, prepared.weights)
        return self.decode(ids_N, prepared.encoded, cache=step_cache), step_cache.result()

    def reorder_cache(self, cache: Cache, beams: Tensor) -> Cache:
        """Returns the cache with its beams reordered; see the base class."""
        return reorder_entries(cache, beams)
