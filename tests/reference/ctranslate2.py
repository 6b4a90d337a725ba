"""Small CTranslate2 models with random weights, built with the classes of its converter, and their outputs.

Legend: D width, F inner width, K channels of a head, V vocabulary.
"""

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec, common_spec, transformer_spec

WIDTH, INNER, HEADS, LAYERS, POSITIONS = 8, 12, 2, 2, 40
SOURCE = ["<unk>", "<s>", "</s>", "<blank>", *["the", "dog", "runs", "a", "cat", "sees", "old"]]
TARGET = ["<blank>", "<s>", "</s>", "<unk>", *["der", "Hund", "läuft", "eine", "Katze", "sieht", "alt", "zu"]]


def random_spec(
    source=SOURCE, target=TARGET, *, tied=False, scale=True, encodings=None, config=None, kv_heads=None,
    decoder=(HEADS, INNER), **settings
):  # fmt: skip
    """Returns a model specification with random weights.

    Args:
        source: tokens of inputs.
        target: tokens of targets.
        tied: whether the output layer shares the target embedding.
        scale: scale of embeddings, as in the format.
        encodings: table of positions, or None.
        config: entries of config.json.
        kv_heads: number of heads of keys and values; None for that of queries.
        decoder: number of heads and inner width of the decoder.
        settings: settings of encoder and decoder.
    """
    stacks = {"num_heads_kv": kv_heads, **settings}
    spec = TransformerSpec(
        transformer_spec.TransformerEncoderSpec(LAYERS, HEADS, **stacks),
        transformer_spec.TransformerDecoderSpec(LAYERS, decoder[0], **stacks),
    )
    rng = np.random.default_rng(3)
    for stack, tokens, heads, inner in ((spec.encoder, source, HEADS, INNER), (spec.decoder, target, *decoder)):
        kv_width = (kv_heads or heads) * (WIDTH // heads)
        stack.scale_embeddings = scale
        if encodings is not None:
            stack.position_encodings.encodings = encodings
        for layer in stack.layer:
            _fill_attention(rng, layer.self_attention, (WIDTH + 2 * kv_width,))
            if hasattr(layer, "attention"):
                _fill_attention(rng, layer.attention, (WIDTH, 2 * kv_width))
            _fill_norm(rng, layer.ffn.layer_norm)
            for name, shape in (
                ("linear_0", (inner, WIDTH)), ("linear_0_noact", (inner, WIDTH)), ("linear_1", (WIDTH, inner))
            ):  # fmt: skip
                if hasattr(layer.ffn, name):
                    _fill(rng, getattr(layer.ffn, name), *shape)
        if hasattr(stack, "layer_norm"):
            _fill_norm(rng, stack.layer_norm)
        (embeddings,) = stack.embeddings if isinstance(stack.embeddings, list) else [stack.embeddings]
        embeddings.weight = _random(rng, len(tokens), WIDTH)
    _fill(rng, spec.decoder.projection, len(target), WIDTH)
    if tied:
        spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    for name, value in (config or {}).items():
        setattr(spec.config, name, value)
    return spec


def write(spec, folder, quantization=None):
    """Writes a model folder, as CTranslate2's converters do."""
    folder.mkdir()
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def log_probs(folder, source, target):
    """Returns CTranslate2's log-probabilities of the target tokens and the end of sequence."""
    model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    (found,) = model.score_batch([source], [target])
    return np.array(found.log_probs)


def greedy(folder, source, most, hidden):
    """Returns the tokens of CTranslate2's greedy output of at most `most` tokens; never writes the token `hidden`."""
    model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    limits = {"min_decoding_length": 0, "max_decoding_length": most}
    suppressed = {"suppress_sequences": [[hidden]]} if hidden else {}
    (found,) = model.translate_batch([source], beam_size=1, **limits, **suppressed)
    return found.hypotheses[0]


def attention(folder, source, most):
    """Returns the tokens of a greedy output, and the attention that they pay to the source, (T, S)."""
    model = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    (found,) = model.translate_batch(
        [source], beam_size=1, min_decoding_length=most, max_decoding_length=most, return_attention=True,
        suppress_sequences=[["<s>"], ["<blank>"], ["<unk>"]],
    )  # fmt: skip
    return found.hypotheses[0], np.array(found.attention[0])


def _fill_attention(rng, attention, rows):
    _fill_norm(rng, attention.layer_norm)
    for linear, size in zip(attention.linear, (*rows, WIDTH), strict=True):
        _fill(rng, linear, size, WIDTH)
    if hasattr(attention, "relative_position_keys"):
        attention.relative_position_keys = _random(rng, 7, WIDTH // HEADS)
        attention.relative_position_values = _random(rng, 7, WIDTH // HEADS)


def _fill(rng, linear, outputs, inputs):
    linear.weight, linear.bias = _random(rng, outputs, inputs), _random(rng, outputs)


def _fill_norm(rng, norm):
    norm.gamma = 1 + _random(rng, WIDTH)
    if hasattr(norm, "beta"):
        norm.beta = _random(rng, WIDTH)


def _random(rng, *shape):
    return rng.normal(0.0, 0.5, shape).astype(np.float32)


def activation(name):
    """Returns the number of an activation in the format."""
    return common_spec.Activation[name]
