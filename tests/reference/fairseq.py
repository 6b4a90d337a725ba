"""fairseq translation models: random models in folders, their symbols, and the network in plain numpy, float64.

Written from the formulas of fairseq 0.12 (`models/transformer`, `modules/sinusoidal_positional_embedding.py`,
`modules/multihead_attention.py`, `data/dictionary.py`), for one sentence at a time and without masks, so that it shares
no code with the library.

Legend: S source length, T target length, D width, F inner width, H heads, V vocabulary.
"""

import argparse
import math

import numpy as np

from tests.reference import marian
from tests.reference.transformer import split_sinusoid

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = {
    "en": ["the", "do@@", "g", "c@@", "a@@", "t", "runs", "house", "madeupword0000"],
    "de": ["der", "H@@", "u@@", "nd", "d@@", "läuft", "madeupword0000"],
}
CODES = "#version: 0.2\nt h\nth e</w>\nd o\na t</w>\nr u\nru n\nrun s</w>\nn d</w>\nd e\nde r</w>\n"


def settings(**changes):
    """Returns the settings from fairseq's options and an architecture function, with small sizes."""
    values = {"arch": "transformer_iwslt_de_en", "task": "translation", "source_lang": "en", "target_lang": "de"}
    for side, layers in (("encoder", 2), ("decoder", 1)):
        values |= {
            f"{side}_embed_dim": 8, f"{side}_ffn_embed_dim": 12, f"{side}_layers": layers,
            f"{side}_attention_heads": 2, f"{side}_normalize_before": False, f"{side}_learned_pos": False,
        }  # fmt: skip
    return values | {
        "activation_fn": "relu", "dropout": 0.3, "attention_dropout": 0.1, "activation_dropout": 0.0,
        "max_source_positions": 32, "max_target_positions": 32, "share_all_embeddings": False,
        "share_decoder_input_output_embed": False, "no_token_positional_embeddings": False, "adaptive_input": False,
        "adaptive_softmax_cutoff": None, "no_scale_embedding": False, "layernorm_embedding": False,
        "decoder_input_dim": 8, "decoder_output_dim": 8, "no_cross_attention": False, "cross_self_attention": False,
    } | changes  # fmt: skip


def random_tensors(values, sizes, seed=0):
    """Returns random tensors by name, for two vocabulary sizes."""
    rng, width = np.random.default_rng(seed), values["encoder_embed_dim"]
    shapes, buffers = {}, {}
    for side, size in zip(("encoder", "decoder"), sizes, strict=True):
        shapes[f"{side}.embed_tokens.weight"] = (size, width)
        buffers |= {f"{side}.version": [3.0], f"{side}.embed_positions._float_tensor": [0.0]}
        for number in range(values[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            for part in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes |= marian.linear(f"{layer}.{part}.{name}", width, width)
                shapes |= _norm(f"{layer}.{part}_layer_norm", width)
            inner = values[f"{side}_ffn_embed_dim"]
            shapes |= marian.linear(f"{layer}.fc1", width, inner) | marian.linear(f"{layer}.fc2", inner, width)
            shapes |= _norm(f"{layer}.final_layer_norm", width)
        shapes |= _norm(f"{side}.layer_norm", width) if values[f"{side}_normalize_before"] else {}
    shapes["decoder.output_projection.weight"] = (sizes[1], width)
    tensors = {name: rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    tensors["encoder.embed_tokens.weight"][1] = tensors["decoder.embed_tokens.weight"][1] = 0.0
    if values["share_all_embeddings"]:
        tensors["encoder.embed_tokens.weight"] = tensors["decoder.embed_tokens.weight"]
    if values["share_all_embeddings"] or values["share_decoder_input_output_embed"]:
        tensors["decoder.output_projection.weight"] = tensors["decoder.embed_tokens.weight"]
    return tensors | {name: np.array(value, np.float32) for name, value in buffers.items()}


def _norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def symbols_of(language, joined=False):
    """Returns the symbols of a language by id, or the joint symbols of both."""
    words = [*WORDS["en"], *WORDS["de"]] if joined else WORDS[language]
    return SYMBOLS + list(dict.fromkeys(words))


def write_model(folder, monkeypatch, edit=None, stream=False, **changes):
    """Writes a checkpoint, dictionaries and codes; returns settings and tensors, which `edit` may change first."""
    folder.mkdir(parents=True, exist_ok=True)
    values = settings(**changes)
    joined = values["share_all_embeddings"]
    sizes = [len(symbols_of(language, joined)) for language in ("en", "de")]
    tensors = random_tensors(values, sizes)
    if edit:
        edit(values, tensors)
    state = {
        "args": argparse.Namespace(**values), "cfg": None, "model": tensors, "optimizer_history": [{"num_updates": 3}],
        "extra_state": {"epoch": 1}, "last_optimizer_state": {"state": {0: {"exp_avg": np.zeros(3, np.float32)}}},
    }  # fmt: skip
    (folder / "model.pt").write_bytes(marian.pytorch_file(state, monkeypatch, stream=stream))
    for language in ("en", "de"):
        lines = [f"{symbol} {9 - place}\n" for place, symbol in enumerate(symbols_of(language, joined)[4:])]
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    (folder / "bpecodes").write_text(CODES)
    return values, tensors


class Network(marian.Network):
    """The network with a model's tensors, whose names are like those of transformers."""

    prefix = ""

    def log_probs(self, source, target):
        """Returns (T, V) for fairseq's ids, both with end of sequence: each position sees the targets before it."""
        return self._after(source, [2, *target[:-1]])

    def _output_table(self):
        return self.tensors["decoder.output_projection.weight"]

    def _embed(self, side, ids):
        x = self.tensors[f"{side}.embed_tokens.weight"][ids]
        x = x if self.values["no_scale_embedding"] else x * math.sqrt(x.shape[1])
        x = x + np.array([self._position(side, place, x.shape[1]) for place in range(len(ids))])
        return self._norm(f"{side}.layernorm_embedding", x) if self.values["layernorm_embedding"] else x

    def _position(self, side, place, width):
        """The first token has position padding_idx + 1 = 2."""
        if self.values["no_token_positional_embeddings"]:
            return np.zeros(width)
        if self.values[f"{side}_learned_pos"]:
            return self.tensors[f"{side}.embed_positions.weight"][place + 2]
        return split_sinusoid(place + 2, width)

    def _is_pre_norm(self, side):
        return self.values[f"{side}_normalize_before"]
