"""Marian's Transformer in plain numpy, float64, with transformers' names, and folders of such models.

Written from the architecture (Vaswani et al. 2017 with biases in attention, norms after sub-layers, swish, sines before
cosines, one table for source, target and output, and an output bias), for one sentence at a time and without masks, so
that it shares no code with the library.

Legend: S source length, T target length, D width, F inner width, H heads, V vocabulary.
"""

import io
import json
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

from tests.reference.transformer import activate

CORPUS = {
    "source": ["the small dog runs home", "an old dog sleeps", "a cat sees the dog", "the cats run to a house"] * 4,
    "target": ["der kleine Hund läuft heim", "ein alter Hund schläft", "eine Katze sieht den Hund", "die Katzen"] * 4,
}
TAG = ">>deu<<"
ACTIVATIONS = {"swish": "silu", "gelu_accurate": "gelu_tanh"}


def config(vocab_size, *, width=8, inner=12, heads=2, layers=2, **others):
    """Returns the content of config.json in the format of OPUS-MT's models, with small sizes."""
    return {
        "model_type": "marian", "architectures": ["MarianMTModel"], "vocab_size": vocab_size, "d_model": width,
        "encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": inner, "decoder_ffn_dim": inner,
        "encoder_attention_heads": heads, "decoder_attention_heads": heads, "activation_function": "swish",
        "max_position_embeddings": 64, "scale_embedding": True, "static_position_embeddings": True,
        "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False, "dropout": 0.1,
        "pad_token_id": vocab_size - 1, "eos_token_id": 0, "decoder_start_token_id": vocab_size - 1, "num_beams": 6,
    } | others  # fmt: skip


def random_tensors(values, seed=0):
    """Returns random tensors by name."""
    rng = np.random.default_rng(seed)
    width, size = values["d_model"], values["vocab_size"]
    shapes = {"model.shared.weight": (size, width), "final_logits_bias": (1, size)}
    for side in ("encoder", "decoder"):
        inner = values[f"{side}_ffn_dim"]
        for number in range(values[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}"
            for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes |= linear(f"{layer}.{attention}.{part}", width, width)
                shapes |= {f"{layer}.{attention}_layer_norm.{kind}": (width,) for kind in ("weight", "bias")}
            shapes |= linear(f"{layer}.fc1", width, inner) | linear(f"{layer}.fc2", inner, width)
            shapes |= {f"{layer}.final_layer_norm.{kind}": (width,) for kind in ("weight", "bias")}
    tensors = {name: rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    tensors["model.shared.weight"][values["pad_token_id"]] = 0.0
    return tensors


def linear(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def positions(length, width):
    """Returns (length, D): sin(pos / 10000^(2i/D)) for i < D/2, then the cosines of the same angles."""
    angles = [[pos / 10000 ** (2 * i / width) for i in range(width // 2)] for pos in range(length)]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def multi_head(query, key, value, heads, causal=False, near=lambda distances: 0.0, bias=lambda head, distances: 0.0):
    """Returns the heads' means of the values (T, D); with `causal`, position t sees those up to t.

    `near` returns what is added to keys and values, and `bias` what is added to scores, by distance.
    """
    queries, keys, values = (np.split(x, heads, axis=-1) for x in (query, key, value))
    rows = []
    for place in range(len(query)):
        count, row = place + 1 if causal else len(key), []
        distances = np.arange(count) - place
        added = near(distances)
        for head, (q, k, v) in enumerate(zip(queries, keys, values, strict=True)):
            scores = (k[:count] + added) @ q[place] / np.sqrt(q.shape[-1]) + bias(head, distances)
            weights = np.exp(scores - scores.max())
            row.append(weights / weights.sum() @ (v[:count] + added))
        rows.append(np.concatenate(row))
    return np.array(rows)


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


class Network:
    """The network with a model's tensors; that of other models whose tensors have similar names, too."""

    prefix = "model."

    def __init__(self, values, tensors):
        self.values = values
        self.tensors = {name: array.astype(np.float64) for name, array in tensors.items()}

    def log_probs(self, source, target):
        """Returns (T, V) for the model's ids, both with end of sequence; each position sees the targets before it."""
        return self._after(source, [self.values["decoder_start_token_id"], *target[:-1]])

    def _after(self, source, read):
        """Returns log-probabilities (T, V) of the next id after each of the decoder's input ids `read`."""
        memory = self._stack("encoder", self._embed("encoder", source), None)
        hidden = self._stack("decoder", self._embed("decoder", read), memory)
        bias = self.tensors.get("final_logits_bias", np.zeros((1, 1)))[0]
        return log_softmax(hidden @ self._output_table().T + bias)

    def _output_table(self):
        return self._table("decoder")

    def _table(self, side):
        is_shared = self.values.get("share_encoder_decoder_embeddings", True)
        return self.tensors["model.shared.weight" if is_shared else f"model.{side}.embed_tokens.weight"]

    def _embed(self, side, ids):
        width = self.values["d_model"]
        return self._table(side)[ids] * np.sqrt(width) + positions(len(ids), width)

    def _is_pre_norm(self, side):
        return False

    def _stack(self, side, x, memory):
        is_pre = self._is_pre_norm(side)
        for number in range(self.values[f"{side}_layers"]):
            layer = f"{self.prefix}{side}.layers.{number}"
            for part, name in (("self_attn", "self_attn"), ("encoder_attn", "encoder_attn"), ("ffn", "final")):
                if part == "encoder_attn" and memory is None:
                    continue
                norm, y = f"{layer}.{name}_layer_norm", x
                y = self._norm(norm, y) if is_pre else y
                if part == "ffn":
                    y = self._map(f"{layer}.fc2", self._activate(self._map(f"{layer}.fc1", y)))
                else:
                    is_self = part == "self_attn"
                    y = self._attend(f"{layer}.{part}", y, y if is_self else memory, is_self and memory is not None)
                x = x + y if is_pre else self._norm(norm, x + y)
        return self._norm(f"{self.prefix}{side}.layer_norm", x) if is_pre else x

    def _activate(self, x):
        kind = self.values.get("activation_function") or self.values["activation_fn"]
        return np.array([activate(ACTIVATIONS.get(kind, kind), row) for row in x])

    def _attend(self, name, x, memory, causal):
        maps = (self._map(f"{name}.{part}_proj", of) for part, of in zip("qkv", (x, memory, memory), strict=True))
        side = "decoder" if "decoder" in name else "encoder"
        return self._map(f"{name}.out_proj", multi_head(*maps, self.values[f"{side}_attention_heads"], causal))

    def _map(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def _norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred / scale * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]


class Tokenizer:
    """The tokenization of transformers: a tag as one token, pieces of a model for each side, ids from a joint table."""

    def __init__(self, folder):
        self.table = json.loads((folder / "vocab.json").read_text())
        self.pieces = {number: piece for piece, number in self.table.items()}
        self.models = {
            side: sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
            for side in ("source", "target")
        }

    def encode(self, text, side="source"):
        """Returns the model's own ids, end of sequence included."""
        pieces = []
        if text.startswith(">>") and "<<" in text:
            tag, _, text = text.partition("<<")
            pieces = [tag + "<<"]
        pieces += self.models[side].encode(text, out_type=str)
        return [self.table.get(piece, self.table["<unk>"]) for piece in pieces] + [self.table["</s>"]]


def learn_vocabulary(folder):
    """Writes source.spm, target.spm and vocab.json; returns the number of ids."""
    pieces = {}
    for side, lines in CORPUS.items():
        content = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=content, vocab_size=40, hard_vocab_limit=False, minloglevel=2
        )
        (folder / f"{side}.spm").write_bytes(content.getvalue())
        model = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
        pieces |= dict.fromkeys(model.id_to_piece(n) for n in range(3, model.get_piece_size()))
    table = ["</s>", "<unk>", *pieces, TAG, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(table)}))
    return len(table)


def write_model(folder, edit=None, seed=0, **settings):
    """Writes a folder as save_pretrained does; returns (config, tensors). `edit` may change both first."""
    folder.mkdir(parents=True, exist_ok=True)
    values = config(learn_vocabulary(folder), **settings)
    tensors = random_tensors(values, seed)
    if edit:
        edit(values, tensors)
    (folder / "config.json").write_text(json.dumps(values))
    save_file(tensors, folder / "model.safetensors")
    return values, tensors


STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "int64": "LongStorage"}


class _Persistent:
    """Placeholder of a storage in a PyTorch pickle."""

    def __init__(self, array, key):
        self.array, self.key = array, key


class _Rebuilt:
    """An array that pickles like a PyTorch tensor."""

    def __init__(self, array, key):
        self.array, self.key = array, key

    def __reduce__(self):
        contiguous = tuple(stride // self.array.itemsize for stride in self.array.strides)
        arguments = (_Persistent(self.array, self.key), 0, self.array.shape, contiguous, False, {})
        return sys.modules["torch._utils"]._rebuild_tensor_v2, arguments


class _Pickler(pickle.Pickler):
    in_stream = False

    def persistent_id(self, obj):
        if not isinstance(obj, _Persistent):
            return None
        kind = getattr(sys.modules["torch"], STORAGES[obj.array.dtype.name])
        return ("storage", kind, obj.key, "cpu", obj.array.size, *([None] if self.in_stream else []))


def _fake_torch():
    """Returns modules that define the names in PyTorch's pickles."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2(*arguments):
        raise NotImplementedError

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    return {"torch": torch, "torch._utils": utils}


def pytorch_file(state, monkeypatch, *, stream=False):
    """Returns the content of a file that PyTorch would write for `state`, in one of its two formats.

    `state` has arrays by name, also in nested dictionaries, and other values.
    """
    with monkeypatch.context() as patched:
        for name, module in _fake_torch().items():
            patched.setitem(sys.modules, name, module)
        content = io.BytesIO()
        pickler = _Pickler(content, protocol=2)
        pickler.in_stream = stream
        arrays, keys = {}, {}

        def rebuilt(value):
            if isinstance(value, dict):
                return {name: rebuilt(item) for name, item in value.items()}
            if not isinstance(value, np.ndarray):
                return value
            number = len(arrays)
            arrays[number], keys[number] = value, str(number)
            return _Rebuilt(value, str(number))

        content_of = rebuilt(state)
        if stream:
            for header in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
                content.write(pickle.dumps(header, protocol=2))
        pickler.dump(content_of)
    if stream:
        content.write(pickle.dumps(list(arrays), protocol=2))
        for array in arrays.values():
            content.write(struct.pack("<q", array.size) + array.tobytes("A"))
        return content.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("archive/data.pkl", content.getvalue())
        archive.writestr("archive/byteorder", b"little")
        for key, array in arrays.items():
            archive.writestr(f"archive/data/{key}", array.tobytes("A"))
    return packed.getvalue()
