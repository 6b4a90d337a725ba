"""fairseq translation models: random models in folders, their symbols, and the network in plain numpy, float64.

Written from the formulas of fairseq 0.12 (`models/transformer`, `modules/sinusoidal_positional_embedding.py`,
`modules/multihead_attention.py`, `data/dictionary.py`), for one sentence at a time and without masks, so that it shares
no code with the library.

Legend: S source length, T target length, D width, F inner width, H heads, V vocabulary.
"""

import argparse
import math

import numpy as np

from tests.reference.marian import pytorch_file

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
                    shapes |= _linear(f"{layer}.{part}.{name}", width, width)
                shapes |= _norm(f"{layer}.{part}_layer_norm", width)
            inner = values[f"{side}_ffn_embed_dim"]
            shapes |= _linear(f"{layer}.fc1", width, inner) | _linear(f"{layer}.fc2", inner, width)
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


def _linear(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


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
    (folder / "model.pt").write_bytes(pytorch_file(state, monkeypatch, stream=stream))
    for language in ("en", "de"):
        lines = [f"{symbol} {9 - place}\n" for place, symbol in enumerate(symbols_of(language, joined)[4:])]
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    (folder / "bpecodes").write_text(CODES)
    return values, tensors


class Network:
    """The network with a model's tensors."""

    def __init__(self, values, tensors):
        self.values = values
        self.tensors = {name: array.astype(np.float64) for name, array in tensors.items()}

    def log_probs(self, source, target):
        """Returns (T, V) for fairseq's ids, both with end of sequence: each position sees the targets before it."""
        memory = self.stack("encoder", source, None)
        hidden = self.stack("decoder", [2, *target[:-1]], memory)
        logits = hidden @ self.tensors["decoder.output_projection.weight"].T
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def stack(self, side, ids, memory):
        x = self.tensors[f"{side}.embed_tokens.weight"][ids]
        x = x if self.values["no_scale_embedding"] else x * math.sqrt(x.shape[1])
        x = x + np.array([self.position(side, place, x.shape[1]) for place in range(len(ids))])
        x = self.norm(f"{side}.layernorm_embedding", x) if self.values["layernorm_embedding"] else x
        before = self.values[f"{side}_normalize_before"]
        for number in range(self.values[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            parts = [
                (f"{layer}.self_attn_layer_norm", lambda y, n=layer: self.attend(f"{n}.self_attn", y, None, memory))
            ]
            if memory is not None:
                name = f"{layer}.encoder_attn_layer_norm"
                parts.append((name, lambda y, n=layer: self.attend(f"{n}.encoder_attn", y, memory, None)))
            parts.append((f"{layer}.final_layer_norm", lambda y, n=layer: self.feed_forward(n, y)))
            for norm, part in parts:
                x = x + part(self.norm(norm, x)) if before else self.norm(norm, x + part(x))
        return self.norm(f"{side}.layer_norm", x) if before else x

    def position(self, side, place, width):
        """The first token has position padding_idx + 1 = 2."""
        if self.values["no_token_positional_embeddings"]:
            return np.zeros(width)
        if self.values[f"{side}_learned_pos"]:
            return self.tensors[f"{side}.embed_positions.weight"][place + 2]
        scales = [math.exp(-i * math.log(10000) / (width // 2 - 1)) for i in range(width // 2)]
        return np.array([math.sin((place + 2) * s) for s in scales] + [math.cos((place + 2) * s) for s in scales])

    def attend(self, name, x, memory, causal):
        seen = x if memory is None else memory
        heads = self.values["encoder_attention_heads"]
        q, k, v = (
            np.split(self.linear(f"{name}.{p}_proj", of), heads, 1)
            for p, of in zip("qkv", (x, seen, seen), strict=True)
        )
        rows = []
        for place in range(len(x)):
            count, row = (place + 1 if causal is not None else len(seen)), []
            for head in range(heads):
                weights = np.exp(k[head][:count] @ q[head][place] / math.sqrt(q[head].shape[1]))
                row.append(weights / weights.sum() @ v[head][:count])
            rows.append(np.concatenate(row))
        return self.linear(f"{name}.out_proj", np.array(rows))

    def feed_forward(self, layer, x):
        inner = self.linear(f"{layer}.fc1", x)
        kind = self.values["activation_fn"]
        if kind == "relu":
            inner = np.maximum(inner, 0.0)
        elif kind == "gelu":
            inner = np.vectorize(lambda v: 0.5 * v * (1.0 + math.erf(v / math.sqrt(2.0))))(inner)
        else:
            inner = 0.5 * inner * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (inner + 0.044715 * inner**3)))
        return self.linear(f"{layer}.fc2", inner)

    def linear(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred / scale * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]
