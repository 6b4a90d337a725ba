"""Tensor2Tensor's Transformer in plain numpy, float64, with its variable names of two versions, and its checkpoints.

Follows its source (tags v1.0.3 and v1.15.7): a packed product, sums over padded positions with -1e9 added, a table of
target spaces. It shares no code with the library.

Legend: S source length, T target length, D width, F inner width, V vocabulary.
"""

import json

import numpy as np
import tensorflow as tf

OLD, NEW = "v1.0.3", "v1.15.7"
TARGET_SPACES = 32


def hparams(era, *, width=8, inner=12, heads=2, layers=2, norm="post", tied=True, **others):
    """Returns the content of hparams.json, limited to hparams of the network and its training."""
    values = {
        "hidden_size": width, "filter_size": inner, "num_heads": heads, "num_hidden_layers": layers, "max_length": 256,
        "label_smoothing": 0.1, "pos": "timing", "multiply_embedding_mode": "sqrt_depth", "batch_size": 4096,
        "shared_embedding_and_softmax_weights": int(tied), "symbol_modality_num_shards": 3, "norm_epsilon": 1e-6,
        "learning_rate": 0.1, "learning_rate_decay_scheme": "noam", "learning_rate_warmup_steps": 4000,
        "optimizer_adam_beta1": 0.9, "optimizer_adam_beta2": 0.98, "optimizer_adam_epsilon": 1e-9,
    }  # fmt: skip
    if era == OLD:
        return values | {"residual_dropout": 0.1} | others
    orders = {"post": ("none", "dan"), "pre": ("n", "da")}
    before, after = orders[norm]
    newer = {
        "layer_prepostprocess_dropout": 0.1, "layer_preprocess_sequence": before, "layer_postprocess_sequence": after,
        "self_attention_type": "dot_product", "ffn_layer": "dense_relu_dense", "norm_type": "layer",
    }  # fmt: skip
    return values | newer | others


RELATIVE = {"self_attention_type": "dot_product_relative", "max_relative_position": 2, "pos": None}
"""Changed hparams of its sets `transformer_relative*`, with a distance that short sentences exceed."""


RELATIVE_V2 = {
    kind: {"self_attention_type": f"dot_product_{kind}relative_v2", "max_relative_position": 3, "norm": "pre"}
    for kind in ("", "unmasked_")
}
"""Changed hparams for vectors of each head: of Magenta's sets, and of both directions."""


def random_variables(era, values, vocab_size, seed=0):
    """Returns random variables of a network by name, each with Adam's two slots, and the counters."""
    rng = np.random.default_rng(seed)
    network = {
        name: rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in _shapes(era, values, vocab_size).items()
    }
    saved = dict(network)
    for name, array in network.items():
        slot = name if era == OLD else f"training/{name}"
        saved[f"{slot}/Adam"] = rng.normal(0.0, 0.01, array.shape).astype(np.float32)
        saved[f"{slot}/Adam_1"] = rng.uniform(0.0, 0.01, array.shape).astype(np.float32)
    prefix = "" if era == OLD else "training/"
    saved |= {f"{prefix}beta1_power": np.float32(0.81), f"{prefix}beta2_power": np.float32(0.96)}
    saved |= {"global_step": np.int64(1234), "losses_avg/problem_0/total_loss": np.float32(5.0)}
    return saved


def _shapes(era, values, vocab_size):
    width, inner, layers = values["hidden_size"], values["filter_size"], values["num_hidden_layers"]
    root = "" if era == OLD else "transformer/"
    shapes = {f"{root}body/target_space_embedding/kernel": (TARGET_SPACES, width)}
    tables = ["shared"] if values["shared_embedding_and_softmax_weights"] else ["input_emb", "target_emb", "softmax"]
    shards = values["symbol_modality_num_shards"]
    for table in tables:
        for shard in range(shards):
            rows = vocab_size // shards + (shard < vocab_size % shards)
            shapes[f"{root}symbol_modality_{vocab_size}_{width}/{table}/weights_{shard}"] = (rows, width)
    for stack in ("encoder", "decoder"):
        for layer in range(layers):
            here = f"{root}body/{stack}/layer_{layer}/"
            of_layer = _old_layer(stack, width, inner) if era == OLD else _new_layer(stack, width, inner, values)
            shapes |= {here + name: shape for name, shape in of_layer.items()}
        if era == NEW and values["layer_preprocess_sequence"] == "n":
            shapes |= _norm(f"{root}body/{stack}/layer_prepostprocess/layer_norm", width)
    return shapes


def _norm(name, width):
    return {f"{name}/layer_norm_scale": (width,), f"{name}/layer_norm_bias": (width,)}


def _old_layer(stack, width, inner):
    shapes = {}
    products = {f"{stack}_self_attention/qkv_transform_single": 3, f"{stack}_self_attention/output_transform_single": 1}
    if stack == "decoder":
        products |= {f"encdec_attention/{name}_transform_single": n for name, n in (("q", 1), ("kv", 2), ("output", 1))}
    for name, times in products.items():
        shapes |= {f"{name}/kernel": (1, 1, width, times * width), f"{name}/bias": (times * width,)}
    for number, (rows, columns) in enumerate(((width, inner), (inner, width)), start=1):
        name = f"conv_hidden_relu/conv{number}_single"
        shapes |= {f"{name}/kernel": (1, 1, rows, columns), f"{name}/bias": (columns,)}
    for number in range(2 if stack == "encoder" else 3):
        shapes |= _norm("layer_norm" + (f"_{number}" if number else ""), width)
    return shapes


def _new_layer(stack, width, inner, values):
    shapes = {}
    process = "layer_prepostprocess" if values["layer_preprocess_sequence"] == "n" else "layer_postprocess"
    for sublayer in ("self_attention",) if stack == "encoder" else ("self_attention", "encdec_attention"):
        for product in ("q", "k", "v", "output_transform"):
            shapes[f"{sublayer}/multihead_attention/{product}/kernel"] = (width, width)
        if sublayer == "self_attention" and values["self_attention_type"] == "dot_product_relative":
            size = (2 * values["max_relative_position"] + 1, width // values["num_heads"])
            relative = f"{sublayer}/multihead_attention/dot_product_attention_relative/relative_positions"
            shapes |= {f"{relative}_{which}/embeddings": size for which in ("keys", "values")}
        if sublayer == "self_attention" and values["self_attention_type"].endswith("relative_v2"):
            kind, most = values["self_attention_type"].removeprefix("dot_product_"), values["max_relative_position"]
            masked = kind == "relative_v2"
            scope = f"dot_product_{'' if masked else 'unmasked_'}self_attention_relative_v2"
            size = (most if masked else 2 * most - 1, width // values["num_heads"])
            size = size if values.get("heads_share_relative_embedding") else (values["num_heads"], *size)
            shapes[f"{sublayer}/multihead_attention/{scope}/key_relative_embeddings"] = size
        shapes |= _norm(f"{sublayer}/{process}/layer_norm", width)
    shapes |= {"ffn/conv1/kernel": (width, inner), "ffn/conv1/bias": (inner,)}
    shapes |= {"ffn/conv2/kernel": (inner, width), "ffn/conv2/bias": (width,)}
    return shapes | _norm(f"ffn/{process}/layer_norm", width)


def write_run(folder, values, variables, flags=None):
    """Writes the folder of a run: hparams.json, flags.txt and a checkpoint in TensorFlow's format."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hparams.json").write_text(json.dumps(values), encoding="utf-8")
    if flags:
        (folder / "flags.txt").write_text("".join(f"--{k}={v}\n" for k, v in flags.items()), encoding="utf-8")
    tf.raw_ops.SaveV2(
        prefix=str(folder / f"model.ckpt-{int(variables['global_step'])}"),
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=[tf.constant(array) for array in variables.values()],
    )


class Network:
    """The network with a checkpoint's variables."""

    def __init__(self, era, values, variables, target_space_id):
        self.era, self.values, self.target_space_id = era, values, target_space_id
        self.variables = {
            name.removeprefix("transformer/"): np.asarray(array, np.float64) for name, array in variables.items()
        }
        self.width = values["hidden_size"]
        self.is_pre = era == NEW and values["layer_preprocess_sequence"] == "n"

    def logits(self, source, target):
        """Returns (T, V) for lists of ids; 0 is padding, which is not attended to; without a source if it is None."""
        shared = self.values["shared_embedding_and_softmax_weights"]
        memory_SD = ignored_1S = None
        if source is not None:
            source = np.array(source)
            hidden_SD = self._embedded("shared" if shared else "input_emb", source)
            ignored_1S = np.where(np.abs(hidden_SD).sum(axis=1) == 0.0, -1e9, 0.0)[None]
            hidden_SD = hidden_SD + self.variables["body/target_space_embedding/kernel"][self.target_space_id]
            memory_SD = self._stack("encoder", hidden_SD + self._timing(len(source)), ignored_1S, None, None)
        target = np.array(target)
        embedded_TD = self._embedded("shared" if shared else "target_emb", target)
        shifted_TD = np.concatenate([np.zeros((1, self.width)), embedded_TD[:-1]])
        future_TT = np.triu(np.full((len(target), len(target)), -1e9), k=1)
        hidden_TD = self._stack("decoder", shifted_TD + self._timing(len(target)), future_TT, memory_SD, ignored_1S)
        return hidden_TD @ self._table("shared" if shared else "softmax").T

    def _table(self, name):
        shards = [key for key in self.variables if f"/{name}/weights_" in key and "Adam" not in key]
        ordered = sorted(shards, key=lambda key: int(key.rsplit("_", 1)[1]))
        return np.concatenate([self.variables[key] for key in ordered])

    def _embedded(self, table, ids):
        return self._table(table)[ids] * self.width**0.5 * (ids != 0)[:, None]

    def _timing(self, length):
        if self.values["pos"] is None:
            return np.zeros((length, self.width))
        count = self.width // 2
        step = np.log(10000.0) / (count - 1)
        angles = np.outer(np.arange(length), np.exp(-step * np.arange(count)))
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def _stack(self, stack, x, bias, memory, memory_bias):
        for layer in range(self.values["num_hidden_layers"]):
            here = f"body/{stack}/layer_{layer}"
            steps = [("self_attention", lambda y, h=here: self._attention(h, "self_attention", y, y, bias))]
            if memory is not None:
                steps.append(
                    (
                        "encdec_attention",
                        lambda y, h=here: self._attention(h, "encdec_attention", y, memory, memory_bias),
                    )
                )
            steps.append(("ffn", lambda y, h=here: self._feed_forward(h, y)))
            for number, (name, function) in enumerate(steps):
                norm = self._norm_name(here, name, number)
                x = x + function(self._normed(norm, x)) if self.is_pre else self._normed(norm, x + function(x))
        return self._normed(f"body/{stack}/layer_prepostprocess/layer_norm", x) if self.is_pre else x

    def _norm_name(self, here, name, number):
        if self.era == OLD:
            return f"{here}/layer_norm" + (f"_{number}" if number else "")
        return f"{here}/{name}/{'layer_prepostprocess' if self.is_pre else 'layer_postprocess'}/layer_norm"

    def _normed(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.values["norm_epsilon"])
        return scaled * self.variables[f"{name}/layer_norm_scale"] + self.variables[f"{name}/layer_norm_bias"]

    def _product(self, name, x):
        kernel = self.variables[f"{name}/kernel"]
        return x @ kernel.reshape(kernel.shape[-2:]) + self.variables.get(f"{name}/bias", 0.0)

    def _attention(self, here, which, x, memory, bias):
        if self.era == NEW:
            base = f"{here}/{which}/multihead_attention"
            q, k, v = (
                self._product(f"{base}/q", x),
                self._product(f"{base}/k", memory),
                self._product(f"{base}/v", memory),
            )
            output = f"{base}/output_transform"
        elif which == "self_attention":
            base = f"{here}/{here.split('/')[1]}_self_attention"
            q, k, v = np.split(self._product(f"{base}/qkv_transform_single", x), 3, axis=1)
            output = f"{base}/output_transform_single"
        else:
            q = self._product(f"{here}/{which}/q_transform_single", x)
            k, v = np.split(self._product(f"{here}/{which}/kv_transform_single", memory), 2, axis=1)
            output = f"{here}/{which}/output_transform_single"
        size = self.width // self.values["num_heads"]
        relative = f"{here}/{which}/multihead_attention/dot_product_attention_relative/relative_positions"
        near_keys, near_values = (self._near(f"{relative}_{part}/embeddings", len(x)) for part in ("keys", "values"))
        heads = []
        for head, start in enumerate(range(0, self.width, size)):
            part = slice(start, start + size)
            scaled = q[:, part] * size**-0.5
            scores = scaled @ k[:, part].T + bias
            scores = scores if near_keys is None else scores + np.einsum("td,tsd->ts", scaled, near_keys)
            scores = scores + self._by_distance(f"{here}/{which}/multihead_attention", head, scaled)
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights = powers / powers.sum(axis=1, keepdims=True)
            found = weights @ v[:, part]
            heads.append(found if near_values is None else found + np.einsum("ts,tsd->td", weights, near_values))
        return self._product(output, np.concatenate(heads, axis=1))

    def _near(self, name, length):
        """Returns the vector of the clipped distance of each pair of positions, (T, T, D / H), or None without any."""
        if name not in self.variables:
            return None
        most = self.values["max_relative_position"]
        distances = np.arange(length)[None, :] - np.arange(length)[:, None]
        return self.variables[name][np.clip(distances, -most, most) + most]

    def _by_distance(self, here, head, scaled):
        """Returns the products of queries with a head's vectors of distances, 0 where there is none, (T, T)."""
        for masks in ("", "unmasked_"):
            name = f"{here}/dot_product_{masks}self_attention_relative_v2/key_relative_embeddings"
            if name not in self.variables:
                continue
            vectors = self.variables[name] if self.variables[name].ndim == 2 else self.variables[name][head]
            here_at = self.values["max_relative_position"] - 1  # the row of distance 0, the last one with masks
            found = np.zeros((len(scaled), len(scaled)))
            for t, s in np.ndindex(found.shape):
                if 0 <= here_at + s - t < len(vectors):
                    found[t, s] = scaled[t] @ vectors[here_at + s - t]
            return found
        return 0.0

    def _feed_forward(self, here, x):
        first, second = (
            (f"{here}/conv_hidden_relu/conv{n}_single" if self.era == OLD else f"{here}/ffn/conv{n}") for n in (1, 2)
        )
        return self._product(second, np.maximum(self._product(first, x), 0.0))
