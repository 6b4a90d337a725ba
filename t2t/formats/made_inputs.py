"""Random inputs made from the vocabularies and shapes of a run, for exports without data.

Legend: H height, W width, C channels, L length.
"""

import random
from collections import Counter
from typing import Any

import numpy as np

from t2t.backends.base import inputs_signature
from t2t.files.lines import clean_line, on_one_line
from t2t.inference.rows import reads_ids
from t2t.inference.translator import Translator
from t2t.models.base import SequenceModel
from t2t.specs.constants import INPUTS, TARGETS, UNK_ID
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.text.encoder import TextEncoder

SEED = 0
MOST_PIECES = 24
"""Largest number of pieces of a text, or length of a sequence of vectors or frames."""

_ATTEMPTS = 20
"""Attempts per text, since some pieces are white space only."""


def make_inputs(translator: Translator, count: int) -> list[Any]:
    """Returns random inputs for a run, texts or arrays; deterministic."""
    if reads_ids(translator.model):
        most = min(MOST_PIECES, translator.longest_input)
        return make_texts(translator.problem.encoders[INPUTS if translator.has_inputs else TARGETS], count, most)
    rng, spec = np.random.default_rng(SEED), translator.model.spec.inputs
    assert spec is not None, "a model without inputs reads ids"
    return [_make_array(spec, rng) for _ in range(count)]


def make_texts(encoder: TextEncoder, count: int, most_pieces: int = MOST_PIECES) -> list[str]:
    """Returns texts of random pieces of a vocabulary; fewer than `count` only if most of its pieces are blank."""
    rng, texts = random.Random(SEED), []
    first = min(UNK_ID + 1, encoder.vocab_size - 1)
    for _ in range(_ATTEMPTS * count):
        pieces = (rng.randrange(first, encoder.vocab_size) for _ in range(rng.randint(1, max(1, most_pieces))))
        text = on_one_line(clean_line(encoder.decode(pieces).encode("utf-8", "replace"), Counter()))
        if text.strip():
            texts.append(text)
        if len(texts) == count:
            break
    return texts


def make_outputs(translator: Translator, count: int) -> list[list[int]]:
    """Returns ids of random texts of the target vocabulary, without end of sequence.

    They compare an export's vocabulary with the run's even where the run's own outputs are nearly empty.
    """
    encoder = translator.problem.encoders[TARGETS]
    return [encoder.encode(text) for text in make_texts(encoder, count)]


def example_text(translator: Translator) -> str:
    """Returns a short text without words that the run's vocabulary lacks."""
    encoder = translator.problem.encoders[INPUTS if translator.has_inputs else TARGETS]
    return "a text" if encoder.lossless else "".join(make_texts(encoder, 1, 5))


def example_shape(model: SequenceModel) -> list[int]:
    """Returns the shape of an input that is not text, without the batch axis; for audio, one second."""
    spec = model.spec.inputs
    assert spec is not None, "a model without inputs reads text"
    sizes = inputs_signature(model).shape[1:]
    return [(spec.sample_rate or MOST_PIECES) if size is None else size for size in sizes]


def _make_array(spec: FeatureSpec, rng: np.random.Generator) -> np.ndarray:
    """Returns a random image (H, W, C) or clip (L, H, W, C), uint8, or audio (L,) up to a second or vectors (L, C)."""
    if spec.kind == FeatureKind.IMAGE:
        return rng.integers(0, 256, spec.shape, np.uint8)
    if spec.kind == FeatureKind.AUDIO:
        return rng.uniform(-1.0, 1.0, rng.integers(spec.sample_rate // 2, spec.sample_rate + 1)).astype(np.float32)
    shape = (int(rng.integers(1, MOST_PIECES + 1)), *spec.shape)
    if spec.kind == FeatureKind.VIDEO:
        return rng.integers(0, 256, shape, np.uint8)
    return rng.normal(size=shape).astype(np.float32)
