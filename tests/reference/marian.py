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
ACTIVATIONS = {"swish": "silu", "relu": "relu"}


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
    width, inner, size = values["d_model"], values["encoder_ffn_dim"], values["vocab_size"]
    shapes = {"model.shared.weight": (size, width), "final_logits_bias": (1, size)}
    for side in ("encoder", "decoder"):
        for number in range(values[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}"
            for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes |= _linear(f"{layer}.{attention}.{part}", width, width)
                shapes |= {f"{layer}.{attention}_layer_norm.{kind}": (width,) for kind in ("weight", "bias")}
            shapes |= _linear(f"{layer}.fc1", width, inner) | _linear(f"{layer}.fc2", inner, width)
            shapes |= {f"{layer}.final_layer_norm.{kind}": (width,) for kind in ("weight", "bias")}
    tensors = {name: rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    tensors["model.shared.weight"][values["pad_token_id"]] = 0.0
    return tensors


def _linear(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def positions(length, width):
    """Returns (length, D): sin(pos / 10000^(2i/D)) for i < D/2, then the cosines of the same angles."""
    angles = [[pos / 10000 ** (2 * i / width) for i in range(width // 2)] for pos in range(length)]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class Network:
    """The network with a model's tensors."""

    def __init__(self, values, tensors):
        self.values = values
        self.tensors = {name: array.astype(np.float64) for name, array in tensors.items()}

    def log_probs(self, source, target):
        """Returns (T, V) for the model's ids, both with end of sequence; each position sees the targets before it."""
        start = self.values["decoder_start_token_id"]
        memory = self._stack("encoder", self._embed("encoder", source), None)
        hidden = self._stack("decoder", self._embed("decoder", [start, *target[:-1]]), memory)
        logits = hidden @ self._table("decoder").T + self.tensors["final_logits_bias"][0]
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def _table(self, side):
        is_shared = self.values.get("share_encoder_decoder_embeddings", True)
        return self.tensors["model.shared.weight" if is_shared else f"model.{side}.embed_tokens.weight"]

    def _embed(self, side, ids):
        width = self.values["d_model"]
        return self._table(side)[ids] * np.sqrt(width) + positions(len(ids), width)

    def _stack(self, side, x, memory):
        for number in range(self.values[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}"
            x = self._norm(
                f"{layer}.self_attn_layer_norm", x + self._attend(f"{layer}.self_attn", x, x, memory is not None)
            )
            if memory is not None:
                attended = self._attend(f"{layer}.encoder_attn", x, memory, causal=False)
                x = self._norm(f"{layer}.encoder_attn_layer_norm", x + attended)
            inner = activate(ACTIVATIONS[self.values["activation_function"]], self._map(f"{layer}.fc1", x))
            x = self._norm(f"{layer}.final_layer_norm", x + self._map(f"{layer}.fc2", inner))
        return x

    def _attend(self, name, x, memory, causal):
        heads = self.values["encoder_attention_heads"]
        query, key, value = (
            np.split(self._map(f"{name}.{part}_proj", of), heads, axis=-1)
            for part, of in zip("qkv", (x, memory, memory), strict=True)
        )
        rows = []
        for place in range(len(x)):
            seen = place + 1 if causal else len(memory)
            row = []
            for head in range(heads):
                scores = key[head][:seen] @ query[head][place] / np.sqrt(query[head].shape[-1])
                weights = np.exp(scores - scores.max())
                row.append(weights / weights.sum() @ value[head][:seen])
            rows.append(np.concatenate(row))
        return self._map(f"{name}.out_proj", np.array(rows))

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


def _with_storages(value, arrays):
    """Replaces arrays, in dictionaries at any depth, by values that pickle as tensors; adds them to `arrays` by key."""
    if isinstance(value, dict):
        return {name: _with_storages(part, arrays) for name, part in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    arrays[str(len(arrays))] = value
    return _Rebuilt(value, str(len(arrays) - 1))


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
