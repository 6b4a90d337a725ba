"""Marian's native format: random models in folders, and its Transformer in plain numpy, float64.

Written from marian-dev's `models/transformer.h`, `layers/generic.h`, `layers/output.cpp` and
`tensors/cpu/tensor_operators.cpp`, for one sentence and one position at a time, without masks, so that it shares no
code with the library.

Legend: S source length, T target length, D width, F inner width, H heads, V vocabulary.
"""

import math

import numpy as np

from tests.reference.marian import log_softmax, multi_head
from tests.reference.transformer import split_sinusoid

WORDS = ["</s>", "<unk>", "the", "dog", "runs", "a", "cat", "sees", "house", "small", "old", "colon:", '"', "it's", "#",
         "-", "yes", "ü", "12"]  # fmt: skip


def settings(vocab, *, width=8, inner=12, heads=2, encoder=2, decoder=1, **others):
    """Returns the settings that Marian writes to a model, with small sizes; `vocab` is the size of both tables."""
    return {
        "type": "transformer", "dim-vocabs": list(vocab), "dim-emb": width, "enc-depth": encoder, "dec-depth": decoder,
        "transformer-heads": heads, "transformer-dim-ffn": inner, "transformer-ffn-depth": 2,
        "transformer-ffn-activation": "swish", "transformer-preprocess": "", "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d", "transformer-postprocess-top": "", "transformer-no-projection": False,
        "transformer-decoder-autoreg": "self-attention", "transformer-train-position-embeddings": False,
        "transformer-tied-layers": [], "transformer-guided-alignment-layer": "last", "input-types": [],
        "tied-embeddings": False, "tied-embeddings-src": False, "tied-embeddings-all": True, "lemma-dim-emb": 0,
        "right-left": False, "skip": False, "layer-normalization": False, "version": "v1.12.0 65bf82f 2023-02-21",
    } | others  # fmt: skip


def random_arrays(values, seed=0):
    """Returns random tensors by name."""
    rng, width = np.random.default_rng(seed), values["dim-emb"]
    source, target = values["dim-vocabs"]
    shared = values["tied-embeddings-all"] or values["tied-embeddings-src"]
    tied = values["tied-embeddings-all"] or values["tied-embeddings"]
    shapes = {"Wemb": (source, width)} if shared else {"encoder_Wemb": (source, width), "decoder_Wemb": (target, width)}
    shapes |= {} if tied else {"decoder_ff_logit_out_Wt": (target, width)}
    shapes["decoder_ff_logit_out_b"] = (1, target)
    pre, post, top = (values[f"transformer-{name}"] for name in ("preprocess", "postprocess", "postprocess-top"))
    for side, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
        shapes |= _norms(f"{side}_top", top, "", width)
        own = values.get("transformer-decoder-dim-ffn") if side == "decoder" else 0
        inner = own or values["transformer-dim-ffn"]
        for number in range(1, values[depth] + 1):
            layer = f"{side}_l{number}"
            for part in ("self", "context")[: 1 + (side == "decoder")]:
                for letter in "qkvo":
                    shapes |= {f"{layer}_{part}_W{letter}": (width, width), f"{layer}_{part}_b{letter}": (1, width)}
                shapes |= _norms(f"{layer}_{part}_Wo", pre, "_pre", width) | _norms(
                    f"{layer}_{part}_Wo", post, "", width
                )
            shapes |= {f"{layer}_ffn_W1": (width, inner), f"{layer}_ffn_b1": (1, inner)}
            shapes |= {f"{layer}_ffn_W2": (inner, width), f"{layer}_ffn_b2": (1, width)}
            shapes |= _norms(f"{layer}_ffn_ffn", pre, "_pre", width) | _norms(f"{layer}_ffn_ffn", post, "", width)
    return {name: rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def _norms(name, letters, suffix, width):
    kinds = {"n": ("ln_scale", "ln_bias"), "r": ("rms_scale",)}
    return {f"{name}_{kind}{suffix}": (1, width) for letter in letters for kind in kinds.get(letter, ())}


def as_yaml(values):
    """Returns settings in the format of yaml-cpp."""
    lines = []
    for name, value in values.items():
        if isinstance(value, list):
            lines += [f"{name}:", *([f"  - {item}" for item in value] or ["  []"])]
        elif isinstance(value, bool):
            lines.append(f"{name}: {str(value).lower()}")
        else:
            lines.append(f"{name}: {value if value != '' else chr(34) * 2}")
    return "\n".join(lines)


def write_vocabulary(path, words):
    """Writes words as yaml-cpp does, quoted only if plain text would be parsed differently."""
    special = {'"': r'"\""', "#": '"#"', "colon:": '"colon:"', "-": '"-"', "yes": '"yes"', "12": "12"}
    path.write_text("".join(f"{special.get(word, word)}: {number}\n" for number, word in enumerate(words)))


def write_model(folder, values, arrays):
    """Writes `model.npz`."""
    folder.mkdir(parents=True, exist_ok=True)
    described = np.frombuffer(as_yaml(values).encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **{"special:model.yml": described}, **arrays)


class Network:
    """The network with a model's tensors."""

    def __init__(self, values, arrays):
        self.values = values
        self.arrays = {name: array.astype(np.float64) for name, array in arrays.items()}

    def log_probs(self, source, target):
        """Returns (T, V) for Marian's ids, both with end of sequence: each position sees the targets before it."""
        shared = "Wemb" in self.arrays
        source_table, target_table = (self.arrays["Wemb" if shared else f"{s}_Wemb"] for s in ("encoder", "decoder"))
        memory = self.stack("encoder", [source_table[token] for token in source], None)
        before = [np.zeros(self.values["dim-emb"])] + [target_table[token] for token in target[:-1]]
        hidden = self.stack("decoder", before, memory)
        table = self.arrays.get("decoder_ff_logit_out_Wt", target_table)
        if "decoder_ff_logit_out_W" in self.arrays:
            table = self.arrays["decoder_ff_logit_out_W"].T
        logits = np.array([table @ x for x in hidden]) + self.arrays.get("decoder_ff_logit_out_b", 0.0)
        return log_softmax(logits)

    def stack(self, side, vectors, memory):
        states = [self.place(x, position) for position, x in enumerate(vectors)]
        for number in range(1, self.values["dec-depth" if memory else "enc-depth"] + 1):
            layer = f"{side}_l{number}"
            states = self.attend(f"{layer}_self", states, None, causal=memory is not None)
            states = states if memory is None else self.attend(f"{layer}_context", states, memory, causal=False)
            states = [self.feed_forward(f"{layer}_ffn", x) for x in states]
        return [self.process("postprocess-top", f"{side}_top", x) for x in states]

    def place(self, x, position):
        if "Wpos" in self.arrays:
            return x + self.arrays["Wpos"][position]
        return math.sqrt(len(x)) * x + split_sinusoid(position, len(x))

    def attend(self, name, states, memory, causal):
        queries = np.array([self.process("preprocess", f"{name}_Wo", x, suffix="_pre") for x in states])
        seen = queries if memory is None else np.array(memory)
        maps = (self.affine(name, letter, of) for letter, of in zip("qkv", (queries, seen, seen), strict=True))
        outputs = self.affine(name, "o", multi_head(*maps, self.values["transformer-heads"], causal))
        return [self.process("postprocess", f"{name}_Wo", y, x) for x, y in zip(states, outputs, strict=True)]

    def feed_forward(self, name, x):
        inner = self.affine(name, "1", self.process("preprocess", f"{name}_ffn", x, suffix="_pre"))
        sharpness = {"swish": 1.0, "gelu": 1.702}.get(self.values["transformer-ffn-activation"])
        inner = np.maximum(inner, 0) if sharpness is None else inner / (1.0 + np.exp(-sharpness * inner))
        return self.process("postprocess", f"{name}_ffn", self.affine(name, "2", inner), x)

    def process(self, which, name, x, before=None, suffix=""):
        for letter in self.values[f"transformer-{which}"]:
            if letter == "a":
                x = x + before
            if letter in "nr":
                kind = {"n": "ln", "r": "rms"}[letter]
                x = x - x.mean() if letter == "n" else x
                x = x / math.sqrt((x**2).mean() + 1e-6) * self.arrays[f"{name}_{kind}_scale{suffix}"][0]
                x = x + self.arrays[f"{name}_ln_bias{suffix}"][0] if letter == "n" else x
        return x

    def affine(self, name, suffix, x):
        return x @ self.arrays[f"{name}_W{suffix}"] + self.arrays[f"{name}_b{suffix}"][0]
