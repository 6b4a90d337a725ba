"""Position encodings that are added: sinusoids (section 3.5) or learned vectors (Table 3, row E); and relative ones.

The latter are read by attention: learned vectors (Shaw et al. 2018, *Self-Attention with Relative Position
Representations*, arXiv:1803.02155; of each head: Huang et al. 2018, *Music Transformer*, arXiv:1809.04281), learned
biases (Raffel et al. 2020, *Exploring the Limits of Transfer Learning*, arXiv:1910.10683), rotations (Su et al. 2021,
*RoFormer*, arXiv:2104.09864).

Where tokens are pieces of words or labels, positions can count words; a decoder can then also read the source word that
comes next, which is of use where outputs are about the source's words in their order.

Legend: B batch, T length or queries, L longest length, D width, V vocabulary; in a decoding step, N rows of one
position each, and a tensor named only `x` is (B, T, D) or (N, D). S source length. For
relative positions: H heads, S keys, K key channels and U value channels of one head, P queries that differ in position
(T, or 1 if all have the same), N queries of one position, Q = P * S pairs, W distances; R is the number of distances of
vectors, such as 2k + 1, and the number of buckets of biases.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.masks import float32_product
from t2t.layers.mode import custom_gradient
from t2t.layers.residual import CompositeLayer
from t2t.layers.sinusoids import wave_frequencies
from t2t.layers.tensors import Size, Tensor
from t2t.specs import EOS_ID, PAD_ID
from t2t.specs.features import ProblemSpec


class Positions(keras.layers.Layer):
    """Adds a vector to each position of a sequence."""

    def __init__(self, **kwargs):
        # Otherwise Keras would round positions that are fractions, as counts of words are, to 16 bits.
        super().__init__(autocast=False, **kwargs)

    def call(self, x, position_BT=None, cache: StepCache | None = None):
        """Returns `x`, (B, T, D), plus the vectors of `position_BT` (B, T) int or float32, by default 0 to T - 1.

        With a cache, `x` is (N, D) and has the position of the decoding step.
        """
        if position_BT is not None:
            return x + ops.cast(ops.reshape(self.vectors(ops.reshape(position_BT, (-1,))), ops.shape(x)), x.dtype)
        if cache is None:
            return x + ops.cast(self.vectors(ops.arange(ops.shape(x)[1])), x.dtype)
        return x + ops.cast(self.vectors(ops.reshape(ops.cast(cache.position, "int32"), (1,))), x.dtype)

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D)."""
        raise NotImplementedError


def sinusoids_at(position_T, width: int, layout: str):
    """Returns the sinusoids of positions, (T, width) float32."""
    angles = ops.cast(position_T, "float32")[:, None] * wave_frequencies(width, layout).astype(np.float32)[None, :]
    encoding = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1 if layout == "interleaved" else -2)
    return ops.reshape(encoding, (-1, width))


class SinusoidalPositions(Positions):
    """Adds the sinusoids of a layout to embeddings; sequences may be longer than any seen in training.

    The first position of a sequence has the sinusoids of position `first`.
    """

    def __init__(self, width: int, layout: str = "interleaved", first: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.width, self.layout, self.first = width, layout, first

    def vectors(self, position_T):
        """Returns the sinusoids of positions, (T, D) float32."""
        return sinusoids_at(position_T + self.first, self.width, self.layout)


class LearnedPositions(Positions):
    """Adds one of L learned vectors to each position, initially normal around 0.

    Their standard deviation is that of the embeddings, D^-1/2, unless `deviation` is given.
    """

    def __init__(self, length: int, width: int, deviation: float | None = None, **kwargs):
        super().__init__(**kwargs)
        self.length, self.width = length, width
        self.deviation = width**-0.5 if deviation is None else deviation

    def build(self, input_shape=None):
        """Creates the table (L, D)."""
        normal = keras.initializers.RandomNormal(stddev=self.deviation)
        self.table = self.add_weight(name="table", shape=(self.length, self.width), initializer=normal)

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D); positions beyond the table get its last one."""
        return ops.take(self.table, ops.minimum(position_T, self.length - 1), axis=0)


def build_positions(
    kind: str, length: int, width: int, layout: str = "interleaved", first: int = 0, **kwargs
) -> Positions | None:
    """Returns the layer of a kind: `sinusoidal` (see `SinusoidalPositions`) or `learned`; None for all others.

    Raises:
        UserError: `words`, which needs a model that counts words, see `t2t.layers.positions`.
    """
    if kind == "words":
        raise UserError("this model does not count words", "choose other positions", hparam="positions", value="words")
    if kind == "sinusoidal":
        return SinusoidalPositions(width, layout, first, **kwargs)
    if kind == "learned":
        return LearnedPositions(length, width, **kwargs)
    return None


class RelativePositions(keras.layers.Layer):
    """Learned vectors a^K and a^V of each distance from query to key, clipped to -k .. k (section 3.2).

    Attention adds them to keys and values; its heads share them.

    Args:
        max_distance: k. Sequences may have any length: larger distances count as k.
        key_size: K.
        value_size: U.
    """

    def __init__(self, max_distance: int, key_size: int, value_size: int, **kwargs):
        super().__init__(**kwargs)
        self.max_distance, self.key_size, self.value_size = max_distance, key_size, value_size

    def build(self, input_shape=None):
        """Creates both tables, (R, K) and (R, U), Glorot uniform."""
        distances = 2 * self.max_distance + 1
        self.keys = self.add_weight(name="keys", shape=(distances, self.key_size))
        self.values = self.add_weight(name="values", shape=(distances, self.value_size))

    def scores(self, q_BHTK, offset_PS):
        """Returns q (a^K)^T / sqrt(K), what equation 5 adds to the scores of the keys, (B, H, T, S) float32.

        `offset_PS` int32 is the position of each key minus that of the query.
        """
        scaled = q_BHTK * float(self.key_size) ** -0.5
        return _by_position(float32_product, scaled, self._vectors(self.keys, offset_PS, q_BHTK.dtype))

    def weighted(self, weights_BHTS, offset_PS):
        """Returns the sum over keys of weight times a^V, what equation 3 adds to that of the values, (B, H, T, U)."""
        return _by_position(ops.matmul, weights_BHTS, self._vectors(self.values, offset_PS, weights_BHTS.dtype))

    def _vectors(self, table, offset_PS, dtype):
        """Returns the vectors of a table for each query position and key, (P, S, K) or (P, S, U)."""
        # A product copies rows exactly, and its gradient sums in a fixed order, unlike that of a gather.
        row_PS = ops.clip(offset_PS, -self.max_distance, self.max_distance) + self.max_distance
        choice_PSR = ops.one_hot(row_PS, 2 * self.max_distance + 1, dtype=dtype)
        return ops.matmul(choice_PSR, ops.cast(table, dtype))


def _by_position(product, x_BHTC, y_P):
    """Returns a product of each query's row with the matrix of its position, (B, H, T, ...); `y_P` is (P, ., .)."""
    batch, heads, queries, channels = ops.shape(x_BHTC)
    if y_P.shape[0] == 1:
        found = product(ops.reshape(x_BHTC, (1, -1, channels)), y_P)
        return ops.reshape(found, (batch, heads, queries, ops.shape(found)[-1]))
    x_TNC = ops.reshape(ops.transpose(x_BHTC, (2, 0, 1, 3)), (queries, -1, channels))
    found = product(x_TNC, y_P)
    return ops.transpose(ops.reshape(found, (queries, batch, heads, ops.shape(found)[-1])), (1, 2, 0, 3))


class RelativeKeys(keras.layers.Layer):
    """Learned vectors of each head for the distances below k, which attention adds to keys (sections 3.2 and 3.4).

    Unlike those of `RelativePositions`, values have none, nor do larger distances.

    Args:
        num_heads: H.
        distances: k, with distance 0.
        key_size: K.
        causal: whether attention is causal, so that only keys up to the query have vectors.
    """

    def __init__(self, num_heads: int, distances: int, key_size: int, causal: bool, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.distances, self.key_size, self.causal = num_heads, distances, key_size, causal

    def build(self, input_shape=None):
        """Creates the vectors (H, R, K), normal around 0 with the deviation K^-1/2; R is k if causal, else 2k - 1."""
        rows = self.distances if self.causal else 2 * self.distances - 1
        normal = keras.initializers.RandomNormal(stddev=self.key_size**-0.5)
        self.vectors = self.add_weight(name="vectors", shape=(self.num_heads, rows, self.key_size), initializer=normal)

    def scores(self, q_BHTK, offset_PS):
        """Returns what the vectors add to the scores of the keys, (B, H, T, S) float32.

        `offset_PS` int32 is the position of each key minus that of the query: of one position of queries, or of every
        pair of one sequence.
        """
        length = ops.shape(q_BHTK)[2]
        if offset_PS.shape[0] == 1:
            return self._products(q_BHTK, offset_PS[0])
        return _by_key(self._products(q_BHTK, ops.arange(1 - length, 1 if self.causal else length)))

    def _products(self, q_BHTK, offset_W):
        """Returns the products with the vectors of distances, 0 where there are none, (B, H, T, W) float32."""
        row_W, rows = offset_W + self.distances - 1, self.vectors.shape[1]
        has_vector_W1 = ops.cast(ops.logical_and(row_W >= 0, row_W < rows), self.vectors.dtype)[:, None]
        # A row is taken more than once only for zeros, so that sums of its gradient have no order.
        found_HWK = ops.take(self.vectors, ops.clip(row_W, 0, rows - 1), axis=1) * has_vector_W1
        # Rows of all sentences are one matrix: of vectors broadcast to each sentence, XLA's products on CPUs are wrong.
        batch, _, queries, _ = ops.shape(q_BHTK)
        q_HBTK = ops.transpose(q_BHTK * float(self.key_size) ** -0.5, (1, 0, 2, 3))
        q_HNK = ops.reshape(q_HBTK, (self.num_heads, batch * queries, self.key_size))
        x_HNW = float32_product(q_HNK, ops.cast(found_HWK, q_BHTK.dtype))
        return ops.transpose(ops.reshape(x_HNW, (self.num_heads, batch, queries, -1)), (1, 0, 2, 3))


def _by_key(x_BHTW):
    """Returns the value of each query and key, (B, H, T, T), from those of distances 1 - T to 0 or T - 1; else zeros.

    By reshaping rows of 2T as rows of 2T - 1, each of which begins one place later (section 3.4.1).
    """
    batch, heads, length, found = ops.shape(x_BHTW)
    missing = ops.zeros((batch, heads, length, 2 * length - found), x_BHTW.dtype)
    flat = ops.reshape(ops.concatenate([x_BHTW, missing], axis=-1), (batch, heads, 2 * length * length))
    shifted = ops.reshape(flat[:, :, : length * (2 * length - 1)], (batch, heads, length, 2 * length - 1))
    return shifted[:, :, :, length - 1 :]


class RelativeBias(keras.layers.Layer):
    """Learned scalars of each head for buckets of distances, which attention adds to its scores (section 2.1).

    All self-attention layers of a stack share them.

    Args:
        num_heads: H.
        buckets: R.
        max_distance: all keys at this distance or farther share a bucket.
        causal: whether attention is causal, so that all buckets are for keys before the query.
    """

    def __init__(self, num_heads: int, buckets: int, max_distance: int, causal: bool, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.buckets, self.max_distance = num_heads, buckets, max_distance
        self.bucket_of_offset = buckets_of_offsets(buckets, max_distance, causal)

    def build(self, input_shape=None):
        """Creates the table (R, H), Glorot uniform."""
        # Scores are float32 in every precision, and so are their biases.
        self.table = self.add_weight(name="table", shape=(self.buckets, self.num_heads), autocast=False)

    def call(self, offset_PS):
        """Returns what is added to the scores, (1, H, P, S) float32.

        `offset_PS` int32 is the position of each key minus that of the query.
        """
        place_PS = ops.clip(offset_PS, -self.max_distance, self.max_distance) + self.max_distance
        bucket_PS = ops.take(ops.convert_to_tensor(self.bucket_of_offset), place_PS, axis=0)
        # Reshaped, since a function with a custom gradient takes tensors but no variables.
        return ops.transpose(_rows_of(ops.reshape(self.table, self.table.shape), bucket_PS), (2, 0, 1))[None]


def _rows_of(table_RH, bucket_PS):
    """Returns the rows of a table, (P, S, H): exactly, as no product in TensorFloat-32 would be.

    The gradient is a product, which sums in a fixed order, unlike that of a gather.
    """

    @custom_gradient
    def rows_of(table_RH, bucket_PS):
        def gradient(up_PSH):
            rows, heads = table_RH.shape
            choice_QR = ops.reshape(ops.one_hot(bucket_PS, rows, dtype="float32"), (-1, rows))
            return ops.matmul(ops.transpose(choice_QR), ops.reshape(up_PSH, (-1, heads))), None

        return ops.take(table_RH, bucket_PS, axis=0), gradient

    return rows_of(table_RH, bucket_PS)


def buckets_of_offsets(buckets: int, max_distance: int, causal: bool) -> np.ndarray:
    """Returns the bucket of each offset from -max_distance to max_distance, (2 * max_distance + 1,) int32.

    In causal attention, all buckets are for keys up to the query; otherwise the second half is for keys after it. Half
    of the buckets of a side hold one distance each, from 0. The others hold ranges of distances that grow geometrically
    up to `max_distance`.
    """
    side = buckets if causal else buckets // 2
    exact = side // 2
    before = [_bucket(distance, side, exact, max_distance) for distance in range(max_distance, -1, -1)]
    after = [0 if causal else side + bucket for bucket in before[-2::-1]]
    return np.array([*before, *after], np.int32)


def _bucket(distance: int, side: int, exact: int, max_distance: int) -> int:
    """Returns the bucket of a distance d from 0 to `max_distance`.

    That is d below E, `exact`, and from there on E + floor((N - E) log(d / E) / log(M / E)), at most N - 1; N is `side`
    and M `max_distance`.
    """
    if distance < exact:
        return distance
    ranges = side - exact
    # In integers: rounded logarithms would misplace distances such as 2 E, at the edge of a bucket.
    reached = [b for b in range(ranges) if distance**ranges * exact**b >= exact**ranges * max_distance**b]
    return exact + reached[-1]


def rotate(x_BHTK, position_T):
    """Returns each pair of neighbouring channels rotated by an angle of its position (equations 13 and 34).

    Channels 2i and 2i + 1 at position m turn by m * 10000^(-2i/K), so that the product of a query and a key depends on
    only their distance. Angles and products are float32; the result has the type of `x_BHTK`.

    Args:
        x_BHTK: queries or keys, K even.
        position_T: (T,) int, or (1,) where all have the same position.
    """
    channels = x_BHTK.shape[-1]
    frequencies = np.repeat(wave_frequencies(channels, "interleaved"), 2).astype(np.float32)
    signs = np.tile(np.array([-1, 1], np.float32), channels // 2)
    angles = ops.cast(position_T, "float32")[:, None] * frequencies
    x, shape = ops.cast(x_BHTK, "float32"), ops.shape(x_BHTK)
    # The other channel of each pair. Reversing pairs is several times as fast as strided slices.
    others = ops.reshape(ops.flip(ops.reshape(x, (*shape[:-1], channels // 2, 2)), axis=-1), shape)
    return ops.cast(x * ops.cos(angles) + others * (ops.sin(angles) * signs), x_BHTK.dtype)


# === Positions that count words ===

PARTS = 16
"""Symbols of one word that have positions of their own, a sixteenth apart; further ones have that of the last."""


class WordCounts(CachingLayer):
    """Counts words: a symbol that begins one has its number n, the next ones of the word n + 1/16, n + 2/16 and so on.

    With such counts as positions on both sides, outputs about word n have the positions of word n: the deterministic
    attention of Liu et al. 2018 (*Improving Sequence-to-Sequence Constituency Parsing*), as a hint and not as a rule.

    Args:
        word_starts: 0 or 1 for each id, see `FeatureSpec`.
        first: the number before any word. A target's position is for what comes after it: with 1, that of word n + 1
            once n words are written.
    """

    def __init__(self, word_starts: str, first: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.starts_V = np.array([digit == "1" for digit in word_starts], np.int32)
        self.starts_V[[PAD_ID, EOS_ID]] = 0  # also where a plug-in's vocabulary says otherwise
        self.first = first

    def call(self, ids, cache: StepCache | None = None):
        """Returns the count at each of `ids`, (B, T) float32 of (B, T) int32; with a cache (N,) of (N,)."""
        starts = ops.take(self.starts_V, ids, axis=0)
        if cache is None:
            return self._counts(starts)
        before_N = cache.state(self.path)
        word_N = ops.floor(before_N)
        same_N = ops.minimum(before_N + 1 / PARTS, word_N + (PARTS - 1) / PARTS)
        count_N = ops.where(starts > 0, word_N + 1, same_N)
        cache.set_state(self.path, count_N)
        return count_N

    def _counts(self, starts_BT):
        length = ops.shape(starts_BT)[1]
        words_BT = ops.cumsum(starts_BT, axis=1)
        # Symbols just before that belong to the same word; word 0 begins right before the sequence.
        earlier = ops.pad(words_BT, ((0, 0), (1, 0)))
        earlier = ops.pad(earlier, ((0, 0), (PARTS - 2, 0)), constant_values=-1)
        same = [ops.equal(earlier[:, k : k + length], words_BT) for k in range(PARTS - 1)]
        within_BT = sum(ops.cast(equal_BT, "float32") for equal_BT in same)
        return self.first + ops.cast(words_BT, "float32") + within_BT / PARTS

    def empty_entry(self, rows: Size, beams: int, length: Size) -> Tensor:
        """Returns the count before the first position, (N,) float32."""
        return ops.full((rows,), self.first, "float32")


def word_starts_of(spec: ProblemSpec, feature: str) -> str:
    """Returns the `word_starts` of a feature: the same for all problems of a mixture.

    Raises:
        UserError: a problem does not say which ids begin words, or two problems differ.
    """
    members = spec.members or (spec,)
    found = [held.word_starts if (held := member.features.get(feature)) else "" for member in members]
    for member, starts in zip(members, found, strict=True):
        if not starts:
            raise UserError(
                f"{member.name} does not say which ids of its {feature} begin words, as parsing does of trees and of "
                "SentencePiece's pieces",
                "choose other positions",
                hparam="positions",
                value="words",
            )
        if starts != found[0]:
            raise UserError(
                f"words of the {feature} begin with other ids in {member.name} than in {members[0].name}",
                "give both one vocabulary, of texts with --shared_vocab_file, or choose other positions",
                hparam="positions",
                value="words",
            )
    return found[0]


class SourceWords(NamedTuple):
    """The encoder's output by words."""

    number: Tensor
    """(B, S) float32: the number of the word of each position, -1 at padding."""
    vectors: Tensor
    """(B, S, D): the projected output of the encoder."""


class NextWord(CompositeLayer):
    """Adds to each position the mean of the encoder's output over the pieces of its next word, projected.

    Attention would have to find that word; Liu et al. 2018 (*Improving Sequence-to-Sequence Constituency Parsing*,
    AAAI) restrict attention to it, for the same reason. After the last word, nothing is added.

    Args:
        width: D.
    """

    def __init__(self, width: int, **kwargs):
        # Otherwise Keras would round the counts, which are fractions, to 16 bits.
        super().__init__(autocast=False, **kwargs)
        self.project = keras.layers.Dense(width, use_bias=False, dtype=self.dtype_policy, name="project")

    def read_source(self, x_BSD, count_BS, keep_BS) -> SourceWords:
        """Returns the words of the encoder's output.

        Args:
            x_BSD: output of the encoder.
            count_BS: float32, of `WordCounts`.
            keep_BS: bool, True at data.
        """
        return SourceWords(ops.where(keep_BS, ops.floor(count_BS), -1.0), self.project(x_BSD))

    def call(self, x, count, words: SourceWords, cache: StepCache | None = None):
        """Returns `x` with the vectors added; `count` is of `WordCounts`, (B, T) float32, or with a cache (N,)."""
        number = ops.floor(count)
        if cache is not None:
            number = cache.by_sentence(number[:, None], ops.shape(words.number)[0])[:, :, 0]
        share_BTS = ops.cast(ops.equal(number[:, :, None], words.number[:, None, :]), "float32")
        share_BTS = share_BTS / ops.maximum(ops.sum(share_BTS, axis=2, keepdims=True), 1.0)
        found_BTD = ops.matmul(ops.cast(share_BTS, words.vectors.dtype), words.vectors)
        return x + ops.reshape(found_BTD, ops.shape(x))
