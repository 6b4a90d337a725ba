"""Writes networks of `encoder_decoder` in the formats of OpenNMT-py, Eole, OpenNMT-tf and Sockeye 3."""

import argparse
import json

import numpy as np
import tensorflow as tf
from safetensors.numpy import save_file

from tests.reference.encoder_decoder import DISTANCE, HEADS, LAYERS, WIDTH
from tests.reference.marian import pytorch_file


def _named(name, pair):
    weight, bias = pair
    return {f"{name}.weight": weight} | ({} if bias is None else {f"{name}.bias": bias})


def _tensors(network, prefixes, norms, maps):
    """Returns the tensors of OpenNMT-py or Eole, whose names are similar."""
    found = {}
    parts = {"self": "self_attn", "cross": "context_attn"}
    letters = {"query": "linear_query", "key": "linear_keys", "value": "linear_values", "out": "final_linear"}
    for side, layers in network.layers.items():
        for number, layer in enumerate(layers):
            prefix = f"{prefixes[side]}.{number}"
            for part, theirs in parts.items():
                for name, pair in layer.get(part, {}).items():
                    if name == "distances":
                        found[f"{prefix}.{theirs}.relative_positions_embeddings.weight"] = pair
                    else:
                        found |= _named(f"{prefix}.{theirs}.{letters[name]}", pair)
            for name, pair in layer["ffn"].items():
                found |= _named(f"{prefix}.{maps[name]}", pair)
            for (_, pair), name in zip(layer["norms"].items(), norms[side], strict=True):
                found |= _named(f"{prefix}.{name}", pair)
        found |= _named(f"{side}.layer_norm", network.final[side])
    return found


SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]


def write_opennmt_py(folder, network, monkeypatch, tokens, opt=None, edit=None):
    """Writes `model_step_7.pt`; `tokens` are the vocabularies of inputs and targets; `edit` may change the content."""
    tensors = _tensors(
        network,
        {"encoder": "encoder.transformer", "decoder": "decoder.transformer_layers"},
        {"encoder": ("layer_norm", "feed_forward.layer_norm"),
         "decoder": ("layer_norm_1", "layer_norm_2", "feed_forward.layer_norm")},
        {"inner": "feed_forward.w_1", "outer": "feed_forward.w_2", "gate": "feed_forward.w_3"},
    )  # fmt: skip
    for side, table in zip(("encoder", "decoder"), network.tables[:2], strict=True):
        tensors[f"{side}.embeddings.make_embedding.emb_luts.0.weight"] = table
        if network.waves.any():
            tensors[f"{side}.embeddings.make_embedding.pe.pe"] = network.waves.astype(np.float32)[:, None]
    settings = {
        "encoder_type": "transformer", "decoder_type": "transformer", "model_task": "seq2seq", "heads": HEADS,
        "position_encoding": bool(network.waves.any()), "max_relative_positions": DISTANCE * (not network.waves.any()),
        "layer_norm": "rms" if network.rms else "standard", "norm_eps": network.epsilon, "dropout": [0.3],
        "pos_ffn_activation_fn": "relu", "lora_layers": [], "copy_attn": False, "share_embeddings": False,
    }  # fmt: skip
    state = {
        "model": tensors,
        "generator": {"weight": network.tables[2], "bias": network.output_bias},
        "vocab": {"src": tokens[0], "tgt": tokens[1], "data_task": "seq2seq", "decoder_start_token": "<s>"},
        "opt": argparse.Namespace(**settings | (opt or {})),
        "optim": {"training_step": 7, "optimizer": {"param_groups": [{"lr": 1.0, "betas": (0.9, 0.998)}]}},
    }
    if edit:
        edit(state)
    folder.mkdir(parents=True)
    (folder / "model_step_7.pt").write_bytes(pytorch_file(state, monkeypatch))


def write_eole(folder, network, tokens, model=None, one_table=False):
    """Writes `config.json`, `vocab.json` and `model.00.safetensors`, which contains a shared table only once."""
    tensors = _tensors(
        network,
        {side: f"{side}.transformer_layers" for side in network.layers},
        {"encoder": ("input_layernorm", "post_attention_layernorm"),
         "decoder": ("input_layernorm", "precontext_layernorm", "post_attention_layernorm")},
        {"inner": "mlp.gate_up_proj", "outer": "mlp.down_proj", "gate": "mlp.up_proj"},
    )  # fmt: skip
    names = ("src_emb.embeddings.weight", "tgt_emb.embeddings.weight", "generator.weight")
    tensors |= dict(zip(names[: 1 if one_table else 3], network.tables, strict=False))
    tensors["generator.bias"] = network.output_bias
    for side in ("src", "tgt"):
        tensors[f"{side}_emb.pe.pe"] = network.waves.astype(np.float32)[:, None]
    for number in range(LAYERS):
        tensors[f"decoder.transformer_layers.{number}.layer_scalar"] = np.ones(1, np.float32)
    stack = {"hidden_size": WIDTH, "heads": HEADS, "layers": LAYERS, "norm_eps": network.epsilon}
    stack["position_encoding_type"] = "SinusoidalInterleaved"
    settings = {
        "architecture": "transformer", "mlp_activation_fn": "relu", "layer_norm": "rms" if network.rms else "standard",
        "encoder": {"encoder_type": "transformer", **stack},
        "decoder": {"decoder_type": "transformer", **stack, "heads": network.decoder_heads},
        "embeddings": {"position_encoding_type": "SinusoidalInterleaved"},
        "share_embeddings": one_table, "share_decoder_embeddings": one_table,
    }  # fmt: skip
    for name, value in (model or {}).items():
        settings[name] = settings[name] | value if isinstance(value, dict) else value
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model": settings}))
    (folder / "vocab.json").write_text(json.dumps({"src": tokens[0], "tgt": tokens[1], "decoder_start_token": "<s>"}))
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / "model.00.safetensors")


def _objects(tree):
    """Returns the object tree of a checkpoint: modules with attributes by name, and a variable for each array."""
    if isinstance(tree, np.ndarray):
        return tf.Variable(tree)
    if isinstance(tree, list):
        return [_objects(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    made = tf.Module()
    for name, part in tree.items():
        setattr(made, name, _objects(part))
    return made


OPENNMT_TF = ["<blank>", "<s>", "</s>"]


def write_opennmt_tf(folder, network, tokens, description, settings=(), positions=None, one_table=False):
    """Writes `ckpt-7`, its description, `data.yml` and the vocabularies.

    Args:
        folder: folder to create.
        network: the network, with a table for each side, or with `one_table`.
        tokens: vocabularies of inputs and targets, without the last token, the unknown one.
        description: content of `model_description.py`.
        settings: further lines of `data.yml`.
        positions: (L, D), tables of learned positions, or None.
        one_table: whether all tables are one variable.
    """

    def dense(pair):
        return {"kernel": pair[0].T.copy()} | ({} if pair[1] is None else {"bias": pair[1]})

    def norm(pair):
        return {"gamma": pair[0], "beta": pair[1]}

    def wrapped(part, pair):
        return {"layer": part, "input_layer_norm" if network.pre_norm else "output_layer_norm": norm(pair)}

    def attention(maps):
        names = {"query": "linear_queries", "key": "linear_keys", "value": "linear_values", "out": "linear_output"}
        found = {theirs: dense(maps[name]) for name, theirs in names.items()}
        tables = ("relative_position_keys", "relative_position_values") if "distances" in maps else ()
        return found | {name: maps["distances"] for name in tables}

    model = {}
    for side, layers in network.layers.items():
        stack = {"layers": []}
        for layer in layers:
            one = {"self_attention": wrapped(attention(layer["self"]), layer["norms"]["self"])}
            if "cross" in layer:
                one["attention"] = [wrapped(attention(layer["cross"]), layer["norms"]["cross"])]
            maps = {name: dense(pair) for name, pair in layer["ffn"].items()}
            stack["layers"].append(one | {"ffn": wrapped(maps, layer["norms"]["ffn"])})
        stack |= {"layer_norm": norm(network.final[side])} if network.pre_norm else {}
        if positions is not None:
            stack["position_encoder"] = {"embedding": np.concatenate([positions[:1] + 9, positions]).astype("f")}
        model[side] = stack
    source, target, output = (tf.Variable(table) for table in network.tables)
    if one_table:
        target = output = source
    kernel = output if one_table else network.tables[2].T.copy()
    model["decoder"]["output_layer"] = {"kernel": kernel, "bias": network.output_bias}
    sides = {"features_inputter": {"embedding": source}, "labels_inputter": {"embedding": target}}
    model["examples_inputter"] = {**sides, "inputters": []}
    folder.mkdir(parents=True)
    objects = {"model": _objects(model), "optimizer": _objects({"iter": np.int64(7) * np.ones((), np.int64)})}
    tf.train.Checkpoint(**objects).write(str(folder / "ckpt-7"))
    (folder / "model_description.py").write_text(description)
    names = {"source": "src.vocab", "target": "src.vocab" if tokens[0] == tokens[1] else "tgt.vocab"}
    for words, name in zip(tokens, names.values(), strict=True):
        (folder / name).write_text("".join(f"{word}\n" for word in words))
    lines = ["model_dir: run", "", "data:", "  train_features_file:", "  - a.txt", "  - b.txt"]
    lines += [f"  {side}_vocabulary: /data/{name}  # of {side}" for side, name in names.items()]
    (folder / "data.yml").write_text("\n".join([*lines, *settings]) + "\n")


def _sockeye_layer(prefix, side, where, layer, heads):
    """Returns the tensors of a layer; `where` its norms are: "pre" or "post"."""
    tensors = {}
    parts = {"self": "self_attention"} if side == "encoder" else {"self": "autoregr_layer", "cross": "enc_attention"}
    for part, theirs in parts.items():
        tensors |= _sockeye_attention(f"{prefix}.{theirs}", layer[part], part, heads)
        tensors |= _named(f"{prefix}.{where}_{theirs}.layer_norm", layer["norms"][part])
    for name, pair in layer["ffn"].items():
        tensors |= _named(f"{prefix}.ff.{ {'inner': 'ff1', 'outer': 'ff2', 'gate': 'linear'}[name] }", pair)
    return tensors | _named(f"{prefix}.{where}_ff.layer_norm", layer["norms"]["ffn"])


def _sockeye_attention(prefix, maps, part, heads):
    """Returns the tensors of attention, with keys and values head by head in one, or of an SSRU."""
    if "forget" in maps:
        return _named(f"{prefix}.forget_gate", maps["forget"]) | _named(f"{prefix}.linear", maps["fresh"])
    key, value = (maps[name][0].reshape(heads, -1, WIDTH) for name in ("key", "value"))
    by_head = [rows for pair in zip(key, value, strict=True) for rows in pair]
    queries = [maps["query"][0]]
    packed = {"ff_in": queries + by_head} if part == "self" else {"ff_q": queries, "ff_kv": by_head}
    tensors = {f"{prefix}.{name}.weight": np.concatenate(blocks) for name, blocks in packed.items()}
    return tensors | _named(f"{prefix}.ff_out", maps["out"])


def write_sockeye(folder, network, monkeypatch, tokens, edit=lambda text: text, **stack):
    """Writes `config`, `params.best` and the vocabularies; `edit` may change the text of the settings."""
    tensors, where = {}, "pre" if network.pre_norm else "post"
    for side, layers in network.layers.items():
        for number, layer in enumerate(layers):
            heads = HEADS if side == "encoder" else network.decoder_heads
            tensors |= _sockeye_layer(f"{side}.layers.{number}", side, where, layer, heads)
        if network.pre_norm:
            tensors |= _named(f"{side}.final_process.layer_norm", network.final[side])
        tensors[f"{side}.pos_embedding.weight"] = network.waves.astype(np.float32)
    names = ("embedding_source.embedding", "embedding_target.embedding", "output_layer")
    tensors |= {f"{name}.weight": table for name, table in zip(names, network.tables, strict=True)}
    tensors |= {"output_layer.bias": network.output_bias, "length_ratio.layers.0.bias": np.zeros(1, np.float32)}
    values = {
        "act_type": "relu", "attention_heads": HEADS, "block_prepended_cross_attention": "false",
        "decoder_type": "transformer", "dropout_act": 0.1, "dropout_attention": 0.0, "dropout_prepost": 0.2,
        "model_size": WIDTH, "num_layers": LAYERS,
        "positional_embedding_type": "fixed",
        "postprocess_sequence": "dr" if network.pre_norm else "drn",
        "preprocess_sequence": "n" if network.pre_norm else "''", "use_glu": "false", "use_lhuc": "false",
    } | stack  # fmt: skip
    lines = ["!ModelConfig", "config_data: !DataConfig", "  data_statistics: !DataStatistics", "    buckets:"]
    lines += ["    - !!python/tuple", "      - 8", "      - 8", "    num_sents: 3", "  eop_id: -1"]
    for side in ("decoder", "encoder"):
        own = values | {"feed_forward_num_hidden": len(network.layers[side][0]["ffn"]["inner"][0])}
        is_encoder = side == "encoder"
        own |= {"decoder_type": "transformer"} if is_encoder else {"attention_heads": network.decoder_heads}
        lines += [f"config_{side}: !TransformerConfig", *(f"  {name}: {value}" for name, value in own.items())]
    for side in ("source", "target"):
        lines += [f"config_embed_{side}: !EmbeddingConfig", "  factor_configs: null", "  num_factors: 1"]
    lines += ["config_length_task: null", "dtype: float32", "lhuc: false", "neural_vocab_selection: null"]
    folder.mkdir(parents=True)
    (folder / "config").write_text(edit("\n".join(lines) + "\n"))
    (folder / "params.best").write_bytes(pytorch_file(tensors, monkeypatch))
    for side, words in zip(("src", "trg"), tokens, strict=True):
        table = {token: number for number, token in enumerate(words)}
        (folder / f"vocab.{side}.0.json").write_text(json.dumps(table, ensure_ascii=False))
