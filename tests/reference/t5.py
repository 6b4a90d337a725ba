"""T5 in plain numpy, float64, with transformers' names, and folders of such models.

Written from Raffel et al. 2020 (arXiv:1910.10683), section 2.1, for one sentence at a time and without masks: pre-norms
that only scale, maps without biases, unscaled attention scores, and a scalar for each head and bucket of distances,
shared by the layers of a stack. Version 1.1 has GELU gates and a separate output layer; version 1.0 has ReLU, and its
output layer is the token table, applied to hidden states divided by sqrt(D).

Legend: S source length, T target length, D width, H heads, V vocabulary.
"""

import io
import json
import re

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

from tests.reference.marian import log_softmax, multi_head
from tests.reference.transformer import activate, bucket, rms_norm

CORPUS = ["the small dog runs home", "an old dog sleeps", "der kleine Hund läuft heim", "ein alter Hund schläft"] * 4
BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def config(vocab_size, version, **others):
    """Returns the content of config.json in the format of T5, with small sizes."""
    form = {"1.0": {}, "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}}[version]
    return {
        "model_type": "t5", "vocab_size": vocab_size, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_layers": 2,
        "num_decoder_layers": 1, "num_heads": 2, "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 6, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6, "pad_token_id": 0,
        "eos_token_id": 1, "decoder_start_token_id": 0, "feed_forward_proj": "relu", "is_encoder_decoder": True,
    } | form | others  # fmt: skip


def random_tensors(values, seed=0):
    """Returns random tensors by name."""
    rng = np.random.default_rng(seed)
    width, inner, heads = values["d_model"], values["d_ff"], values["num_heads"]
    attention = heads * values["d_kv"]
    is_gated = values["feed_forward_proj"].startswith("gated")
    shapes = {"shared.weight": (values["vocab_size"], width)}
    if not values.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (values["vocab_size"], width)
    for side, layers in (("encoder", values["num_layers"]), ("decoder", values["num_decoder_layers"])):
        shapes |= {f"{side}.final_layer_norm.weight": (width,)}
        shapes |= {f"{side}.{BIAS}": (values["relative_attention_num_buckets"], heads)}
        parts = ["SelfAttention", *(["EncDecAttention"] if side == "decoder" else []), "DenseReluDense"]
        for layer in range(layers):
            for number, part in enumerate(parts):
                name = f"{side}.block.{layer}.layer.{number}"
                shapes |= {f"{name}.layer_norm.weight": (width,)}
                if part == "DenseReluDense":
                    maps = {key: (inner, width) for key in (("wi_0", "wi_1") if is_gated else ("wi",))}
                    maps |= {"wo": (width, inner)}
                else:
                    maps = {"q": (attention, width), "k": (attention, width), "v": (attention, width)}
                    maps |= {"o": (width, attention)}
                shapes |= {f"{name}.{part}.{key}.weight": shape for key, shape in maps.items()}
    return {name: (rng.normal(0.0, 0.4, shape) + ("norm" in name)).astype(np.float32) for name, shape in shapes.items()}


class Network:
    """The network with a model's tensors."""

    def __init__(self, values, tensors):
        self.values = values
        self.tensors = {name: array.astype(np.float64) for name, array in tensors.items()}

    def log_probs(self, source, target):
        """Returns (T, V); each position sees the source, and padding followed by the targets before it."""
        memory = self._stack("encoder", source, None)
        hidden = self._stack("decoder", [0, *target[:-1]], memory)
        if "lm_head.weight" in self.tensors:
            logits = [self.tensors["lm_head.weight"] @ x for x in hidden]
        else:
            logits = [self.tensors["shared.weight"] @ (x / np.sqrt(len(x))) for x in hidden]
        return log_softmax(np.array(logits))

    def _stack(self, side, ids, memory):
        xs = [self.tensors["shared.weight"][number] for number in ids]
        for layer in range(self.values["num_layers" if side == "encoder" else "num_decoder_layers"]):
            name = f"{side}.block.{layer}.layer"
            attended = self._attend(f"{name}.0.SelfAttention", self._norms(f"{name}.0.layer_norm", xs), None, side)
            xs = [x + y for x, y in zip(xs, attended, strict=True)]
            if memory is not None:
                normed = self._norms(f"{name}.1.layer_norm", xs)
                attended = self._attend(f"{name}.1.EncDecAttention", normed, memory, side)
                xs = [x + y for x, y in zip(xs, attended, strict=True)]
            last = f"{name}.{1 if memory is None else 2}"
            normed = self._norms(f"{last}.layer_norm", xs)
            xs = [x + self._feed_forward(f"{last}.DenseReluDense", y) for x, y in zip(xs, normed, strict=True)]
        return self._norms(f"{side}.final_layer_norm", xs)

    def _norms(self, name, xs):
        return [rms_norm(x, self.tensors[f"{name}.weight"], self.values["layer_norm_epsilon"]) for x in xs]

    def _attend(self, name, xs, memory, side):
        """Scores are not scaled; those of self-attention have a bias for each head and distance."""
        seen, causal = xs if memory is None else memory, memory is None and side == "decoder"
        query, key, value = (
            np.array([self._map(f"{name}.{part}", x) for x in of])
            for part, of in zip("qkv", (xs, seen, seen), strict=True)
        )
        sizes = (self.values["relative_attention_num_buckets"], self.values["relative_attention_max_distance"])

        def bias(head, distances):
            table = self.tensors[f"{side}.{BIAS}"]
            return np.array([table[bucket(d, side == "decoder", *sizes), head] * (memory is None) for d in distances])

        unscaled = query * np.sqrt(self.values["d_kv"])
        found = multi_head(unscaled, key, value, self.values["num_heads"], causal, bias=bias)
        return [self._map(f"{name}.o", x) for x in found]

    def _feed_forward(self, name, x):
        if f"{name}.wi.weight" in self.tensors:
            return self._map(f"{name}.wo", np.maximum(self._map(f"{name}.wi", x), 0.0))
        gate = activate("gelu_tanh", self._map(f"{name}.wi_0", x))
        return self._map(f"{name}.wo", gate * self._map(f"{name}.wi_1", x))

    def _map(self, name, x):
        return self.tensors[f"{name}.weight"] @ x


class Tokenizer:
    """The tokenization of transformers: pieces of the model, followed by the sentinels in reverse order."""

    def __init__(self, folder, sentinels=100):
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
        self.size = self.model.get_piece_size() + sentinels

    def encode(self, text):
        """Returns ids, end of sequence included."""
        ids = []
        for part in re.split(r"(<extra_id_\d{1,2}>)", text):
            found = re.fullmatch(r"<extra_id_(\d+)>", part)
            ids += [self.size - 1 - int(found[1])] if found else self.model.encode(part)
        return [*ids, 1]


def write_model(folder, version="1.0", edit=None, seed=0, **settings):
    """Writes a folder in the format of T5; returns (config, tensors). `edit` may change both first."""
    folder.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=content, vocab_size=40, hard_vocab_limit=False, minloglevel=2,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(content.getvalue())
    values = config(Tokenizer(folder).size + 4, version, **settings)  # 4 unused rows at the end, like T5's 28
    tensors = random_tensors(values, seed)
    if edit:
        edit(values, tensors)
    (folder / "config.json").write_text(json.dumps(values))
    save_file(tensors, folder / "model.safetensors")
    return values, tensors
