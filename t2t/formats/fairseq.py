"""Imports fairseq translation models of the architectures `transformer*`.

The network is that of `transformer_bart`: the paper's Transformer with biases in attention, Tensor2Tensor's sinusoids
starting at position 2, or learned positions, and a decoder that starts with the end of sequence. Norms, sharing of
tables, activation and depths are settings.

A folder has a checkpoint, dictionaries, and BPE codes or SentencePiece models. The settings in a checkpoint are an
`argparse.Namespace`, or since 0.10.1 a tree of them. Namespaces, OmegaConf's containers and enums are records of the
restricted reader; no class is loaded. A dictionary has four implicit special symbols, then a symbol and its count on
each line.

Legend: D width, V vocabulary, L positions.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, first_few, one_line
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import in_our_order, our_order
from t2t.formats.huggingface.mapping import transformer_parts
from t2t.formats.importer import ForeignRun, ImportRequest, Settings, alignment_hparams
from t2t.formats.pytorch import PlainValues, Record, parse_checkpoint, tensors_of
from t2t.formats.tensors import Tensors, take_parts
from t2t.hparams.transformer_bart import TransformerBartHParams, transformer_m2m
from t2t.specs import INPUTS, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.imported import BpeEncoder, PieceTableEncoder
from t2t.text.words import TokenEncoder

_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu_tanh", "gelu_fast": "gelu_tanh",
}  # fmt: skip
_FALSE = (False, None, 0)
_KNOWN: dict[str, tuple[Any, ...]] = {
    "task": ("translation", None),
    "activation_fn": (*_ACTIVATIONS, None),
    "adaptive_input": _FALSE, "adaptive_softmax_cutoff": (None, "", []),
    "character_embeddings": _FALSE, "char_inputs": _FALSE, "no_cross_attention": _FALSE, "cross_self_attention": _FALSE,
    "no_decoder_final_norm": _FALSE, "base_layers": _FALSE, "encoder_layers_to_keep": (None, ""),
    "decoder_layers_to_keep": (None, ""), "alternate_decoder_ffn_embed_dim": _FALSE,
}  # fmt: skip
_SAME = ("embed_dim", "normalize_before", "learned_pos")
"""Settings of encoder and decoder that share one hparam here."""
_COPIES = [f"{part}_{kind}" for part in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias")]
"""Untrained copies of weights that version 0.12.2 has in encoder layers."""
_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
"""Symbols of ids 0 to 3."""
_PAD, _EOS, _UNKNOWN = 1, 2, 3
_FIRST_POSITION = _PAD + 1
_OLD_DECODER, _OLD_ENCODER = 2, 1
"""Up to these versions of the stacks, fairseq omits the norm at their end."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder with a checkpoint, the dictionaries of both languages, and BPE codes or a SentencePiece model.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    settings, arrays = read_checkpoint(request.model_dir)
    hparams = _hparams(settings)
    (source, target), described, warnings = read_vocabularies(request.model_dir, settings)
    if hparams.shared_embedding and source.ids_fingerprint != target.ids_fingerprint:
        raise UserError(
            "its dictionaries differ, and the model has one table for both (share_all_embeddings)",
            "give the files of one model",
            option="model_dir",
            value=request.model_dir,
        )
    tensors = Tensors(with_todays_names(arrays), settings.where)
    weights = _weights(tensors, settings, hparams, source.vocab_size, target.vocab_size)
    alignment, lost = alignment_hparams(settings.get("alignment_layer"), settings.get("alignment_heads"), hparams)
    return ForeignRun(
        problem=request.problem.with_encoders({INPUTS: source, TARGETS: target}),
        model="transformer_bart",
        hparams=hparams.replace(**alignment),
        hparams_set="transformer_m2m",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {settings.where}",
        settings="its settings and dictionaries",
        notes=(
            f"ids: padding {_PAD}, end of sequence {_EOS} and unknown {_UNKNOWN} became 0, 1 and 2",
            f"texts: {described}",
        ),
        warnings=(*warnings, *lost),
    )


def _hparams(settings: Settings) -> TransformerBartHParams:
    """Returns the hparams of the network, with `transformer_m2m`'s values for training."""
    arch = settings.get("arch")
    if not isinstance(arch, str) or not arch.startswith("transformer") or "_lm" in arch:
        raise UserError(
            f"{settings.where}: its architecture is {arch!r}", "translators of transformer* can be imported"
        )
    wrong = list[str]()
    for name in _SAME:
        values = [settings.get(f"{side}_{name}") for side in ("encoder", "decoder")]
        if values[0] != values[1]:
            wrong.append(f"encoder_{name}={values[0]!r} and decoder_{name}={values[1]!r} (known: equal ones)")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if settings.get(name) not in (None, settings.get("decoder_embed_dim")):
            wrong.append(f"{name}={settings[name]!r} (known: that of decoder_embed_dim)")
    settings.check(_KNOWN, wrong)
    positions = "learned" if settings.get("encoder_learned_pos") else "sinusoidal"
    positions = "none" if settings.get("no_token_positional_embeddings") else positions
    lengths = [settings.need(f"max_{side}_positions") for side in ("source", "target")]
    is_tied = settings.get("share_all_embeddings") or settings.get("share_decoder_input_output_embed")
    hparams = transformer_m2m().replace(
        hidden_size=settings.need("encoder_embed_dim"),
        num_encoder_layers=settings.need("encoder_layers"),
        num_decoder_layers=settings.need("decoder_layers"),
        num_heads=settings.need("encoder_attention_heads"),
        filter_size=settings.need("encoder_ffn_embed_dim"),
        activation=_ACTIVATIONS[settings.get("activation_fn") or "relu"],
        norm_position="pre" if settings.get("encoder_normalize_before") else "post",
        norm_epsilon=1e-5,
        attention_bias=True,
        positions=positions,
        sinusoid_layout="split" if positions == "sinusoidal" else "interleaved",
        first_position=_FIRST_POSITION if positions == "sinusoidal" else 0,
        embedding_norm=bool(settings.get("layernorm_embedding")),
        target_start="id",
        shared_embedding=bool(settings.get("share_all_embeddings")),
        shared_embedding_and_softmax_weights=bool(is_tied) and not settings.get("no_scale_embedding"),
        max_length=min(lengths),
        layer_prepostprocess_dropout=settings.number("dropout", 0.1),
        attention_dropout=settings.number("attention_dropout", 0.0),
        relu_dropout=settings.number("activation_dropout", 0.0) or settings.number("relu_dropout", 0.0),
        beam_size=5,
        length_penalty="power",
        alpha=1.0,
        min_output_length=1,
    )
    return hparams.with_decoder(settings.need("decoder_attention_heads"), settings.need("decoder_ffn_embed_dim"))


def _weights(tensors: Tensors, settings: Settings, hparams: TransformerBartHParams, *sizes: int) -> Arrays:
    """Returns the weights by our paths; marks the tensors that are not needed."""
    weights = _tables(tensors, settings, hparams, *sizes) | _positions(tensors, hparams)
    weights |= take_parts(tensors, transformer_parts(hparams.encoder_layers, hparams.decoder_layers, prefix=""))
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            for copy in _COPIES:
                tensors.drop(f"{side}.layers.{number}.{copy}", "fairseq fills it with others when it loads")
        if hparams.norm_position == "pre":
            _check_version(tensors, settings, side)
            weights |= tensors.norm(f"{side}.layer_norm", f"{side}/final_norm")
        tensors.drop(f"{side}.version", "the version of the format")
    return weights


def _tables(tensors: Tensors, settings: Settings, hparams: Any, source_size: int, target_size: int) -> Arrays:
    """Returns the tables of tokens, rows in our order."""
    names = {"target_embedding": ("decoder.embed_tokens.weight", target_size)}
    if settings.get("share_all_embeddings"):
        tensors.drop_copy("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    else:
        names["source_embedding"] = ("encoder.embed_tokens.weight", source_size)
    is_tied = settings.get("share_all_embeddings") or settings.get("share_decoder_input_output_embed")
    if is_tied:
        tensors.drop_copy("decoder.output_projection.weight", "decoder.embed_tokens.weight")
    if not hparams.shared_embedding_and_softmax_weights:
        output = "decoder.embed_tokens.weight" if is_tied else "decoder.output_projection.weight"
        names["output_embedding"] = (output, target_size)
    tables = {}
    for ours, (name, size) in names.items():
        table_VD = tensors.take(name)
        if len(table_VD) != size:
            raise UserError(
                f"{settings.where}: {name} has {len(table_VD)} rows, the dictionary {size} symbols",
                "give the files of one model",
            )
        # Our embedding layers multiply by sqrt(D).
        is_divided = ours != "output_embedding" and settings.get("no_scale_embedding")
        scale = np.float32(hparams.hidden_size**-0.5 if is_divided else 1.0)
        order = our_order(size, _PAD, _EOS, _UNKNOWN)
        tables[f"{ours}/table"] = table_VD[order] * scale
    return tables


def _positions(tensors: Tensors, hparams: TransformerBartHParams) -> Arrays:
    """Returns tables of learned positions, (L, D), and norms of embeddings; sinusoids are computed, not stored."""
    weights: Arrays = {}
    for side, path in (("encoder", "source_positions"), ("decoder", "target_positions")):
        for buffer in ("_float_tensor", "weights"):
            tensors.drop(f"{side}.embed_positions.{buffer}", "sinusoids, which are computed here")
        if hparams.positions == "learned":
            table_LD = tensors.take(f"{side}.embed_positions.weight")[_FIRST_POSITION:]
            weights[f"{path}/positions/table"] = table_LD[: hparams.max_length]
        if hparams.embedding_norm:
            weights |= tensors.norm(f"{side}.layernorm_embedding", f"{path}/norm")
    return weights


def _check_version(tensors: Tensors, settings: Settings, side: str) -> None:
    """Raises UserError for a pre-norm stack of a version that has no norm at its end."""
    name = f"{side}.version"
    version = float(tensors.take(name).reshape(-1)[0]) if name in tensors else 1.0
    if version <= (_OLD_DECODER if side == "decoder" else _OLD_ENCODER):
        raise UserError(
            f"{settings.where}: {name} is {version:g}, of which fairseq leaves out the norm at the end of the {side}",
            "the models here have it, so it cannot be imported",
        )


# === Tensors of older versions ===

_NORM = re.compile(r"(encoder|decoder)(\.layers\.\d+\.)layer_norms\.(\d)\.(weight|bias)")
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_PACKED = re.compile(r"(.+_attn\.)in_proj_(weight|bias)")


def with_todays_names(arrays: Arrays) -> Arrays:
    """Returns the tensors by their names in version 0.12.

    In older versions norms were numbered within a layer, queries, keys and values were stacked in one matrix, and a
    separate output layer was `decoder.embed_out`.
    """
    found: Arrays = {}
    for name, array in arrays.items():
        if norm := _NORM.fullmatch(name):
            stack, layer, number, kind = norm.groups()
            found[f"{stack}{layer}{_NORMS[stack][int(number)]}.{kind}"] = array
        elif packed := _PACKED.fullmatch(name):
            parts = np.split(array, 3) if len(array) % 3 == 0 else [array]
            letters = "qkv" if len(parts) == 3 else "?"
            found |= {
                f"{packed[1]}{letter}_proj.{packed[2]}": part for letter, part in zip(letters, parts, strict=True)
            }
        else:
            found["decoder.output_projection.weight" if name == "decoder.embed_out" else name] = array
    return found


# === The files of a folder ===

_CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")
"""Names of checkpoints, the preferred one first; a file with another name is used if it is the only one."""
_CODES = ("bpecodes*", "code", "codes", "code.*", "codes.*", "*.codes", "*.bpecodes", "bpe.codes*")
_MODELS = ("*.model", "*.spm")
"""Names of subword-nmt codes and SentencePiece models; a name that ends with a language belongs to that side."""


def read_checkpoint(folder: Path) -> tuple[Settings, Arrays]:
    """Returns the settings and tensors of a folder's checkpoint; raises UserError for none, several or damaged ones."""
    names = sorted(path.name for path in folder.glob("*.pt"))
    preferred = [name for name in _CHECKPOINTS if name in names]
    if not preferred and len(names) != 1:
        found = f"{len(names)} checkpoints, {first_few(names, ', ')}" if names else "no checkpoint (*.pt)"
        raise UserError(f"it has {found}", "name the one to import model.pt", option="model_dir", value=folder)
    path = folder / (preferred or names)[0]
    content = ModelFolder(folder).read(path.name)
    try:
        checkpoint = parse_checkpoint(content, KNOWN)
        if not isinstance(checkpoint, dict) or "model" not in checkpoint:
            raise ValueError("it has no model; give a checkpoint of fairseq")
        arrays, settings = tensors_of(checkpoint["model"]), read_settings(checkpoint, str(path))
    except ValueError as error:
        raise UserError(f"{path}: {one_line(error)}", "get the file again") from error
    return Settings(settings, path), arrays


def read_vocabularies(folder: Path, settings: Settings) -> tuple[list[TextEncoder], str, tuple[str, ...]]:
    """Returns the encoders of both sides, how texts are split, and warnings about preprocessing that texts need.

    Raises:
        UserError: a dictionary is missing, or the file for splitting texts is ambiguous.
    """
    languages = [settings.get(f"{side}_lang") for side in ("source", "target")]
    if not all(isinstance(language, str) for language in languages):
        raise UserError(f"{settings.where}: its settings name no source_lang and target_lang", "give a translator")
    codes, models = (_of_languages(folder, patterns, languages) for patterns in (_CODES, _MODELS))
    if codes and models:
        found = ", ".join(sorted({path.name for path in (*codes, *models)}))
        raise UserError(
            f"it has both BPE codes and SentencePiece models, {found}",
            "leave one kind",
            option="model_dir",
            value=folder,
        )
    cutters = codes or models
    files, encoders = ModelFolder(folder), []
    for side, language in enumerate(languages):
        name = f"dict.{language}.txt"
        symbols = parse_dictionary(files.read(name), folder / name)
        pieces = in_our_order(symbols, our_order(len(symbols), _PAD, _EOS, _UNKNOWN))
        content = files.read(cutters[side].name) if cutters else b""
        cut: TextEncoder = PieceTableEncoder(content, pieces, tags=False) if models else TokenEncoder(pieces[3:])
        encoders.append(BpeEncoder(content, pieces) if codes else cut)
    kind = "BPE codes" if codes else "SentencePiece model" if models else ""
    names = " and ".join(dict.fromkeys(path.name for path in cutters))
    described = f"cut by the {kind} {names}" if kind else "words as they stand, since no codes are there"
    return encoders, described, _warnings(settings, bool(kind))


def _warnings(settings: Mapping[str, Any], is_cut: bool) -> tuple[str, ...]:
    found = []
    if settings.get("tokenizer") == "moses":
        found.append("its texts are tokenized by Moses' rules; give texts that are, and detokenize outputs")
    if settings.get("bpe") and not is_cut:
        found.append(f"its texts are cut by {settings['bpe']}, whose file is not there; give texts that are cut")
    return tuple(found)


def _of_languages(folder: Path, patterns: Sequence[str], languages: Sequence[Any]) -> list[Path]:
    """Returns the matching files of both sides, which may be one file for both; empty if there are none.

    Raises:
        UserError: there are several files, but not one for each language.
    """
    found = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    if len(found) <= 1:
        return found * 2
    own = [[path for path in found if path.name.endswith(f".{language}")] for language in languages]
    if len(found) == 2 and all(len(paths) == 1 for paths in own):
        return [paths[0] for paths in own]
    raise UserError(
        f"{', '.join(path.name for path in found)} could all cut texts",
        f"leave one, or one that ends with .{languages[0]} and one that ends with .{languages[1]}",
        option="model_dir",
        value=folder,
    )


# === Settings in a checkpoint ===

KNOWN = (
    "argparse", "omegaconf", "fairseq", "typing", "collections", "builtins", "__builtin__", "enum", "pathlib", "numpy",
    "torch", "_codecs",
)  # fmt: skip
"""Packages whose objects a checkpoint may contain."""
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_MOST_NESTED = 20
_MOST_BYTES = 1 << 24
"""Largest size of settings, see `PlainValues`; there are some hundred."""


def read_settings(checkpoint: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the settings of task and model by name.

    Raises:
        UserError: there are no settings; the message names the file with `where`.
        ValueError: they repeat shared values too often.
    """
    values = PlainValues(_MOST_BYTES)
    tree = _plain(checkpoint.get("cfg"), values) or {"model": _plain(checkpoint.get("args"), values)}
    model, task = (tree.get(name) if isinstance(tree, dict) else None for name in ("model", "task"))
    if not isinstance(model, dict):
        raise UserError(f"{where}: it has no settings of a model (cfg or args)", "give a checkpoint of fairseq")
    task = task if isinstance(task, dict) else {}
    settings = {**task, **model}
    if "_name" in task:
        settings["task"] = task["_name"]
    settings.setdefault("arch", model.get("_name"))
    return {name: _resolve(value, tree) for name, value in settings.items()}


def _plain(value: Any, values: PlainValues, depth: int = 0) -> Any:
    """Replaces records by plain values: dictionaries, lists, strings and numbers; None for anything else."""
    if depth > _MOST_NESTED:
        return None
    values.count(value)
    if isinstance(value, Record):
        state = value.state if isinstance(value.state, dict) else {}
        if value.name == "argparse.Namespace":
            return _plain(state, values, depth + 1)
        if value.name.startswith("omegaconf."):
            return _plain(state.get("_content", state.get("_val")), values, depth + 1)
        return _plain(value.arguments[0], values, depth + 1) if len(value.arguments) == 1 else None  # an enum or a path
    if isinstance(value, dict):
        return {str(name): _plain(item, values, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, values, depth + 1) for item in value]
    return value if isinstance(value, str | int | float | bool) else None


def _resolve(value: Any, tree: Mapping[str, Any]) -> Any:
    """Resolves references such as `${model.decoder.embed_dim}`; other values are returned unchanged."""
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    place: Any = tree
    for name in found[1].split("."):
        place = place.get(name) if isinstance(place, dict) else None
    return place


# === Dictionaries ===

_OVERWRITE = "#fairseq:overwrite"


def parse_dictionary(content: bytes, path: Path) -> list[str]:
    """Returns the symbols by id, all distinct.

    A line that ends with `#fairseq:overwrite` takes over the text of an earlier symbol, whose unused id is then named
    `<id_4>` or the like.

    Raises:
        UserError: a line is not a symbol with a count, or repeats a symbol.
    """
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason})", "get it again") from None
    symbols = list(_SYMBOLS)
    ids: dict[str, int] = {symbol: number for number, symbol in enumerate(symbols)}
    for line in filter(None, lines):  # only \n separates lines: a symbol may be another line separator
        text = line.rstrip()
        is_overwriting = text.endswith(f" {_OVERWRITE}")
        symbol, _, count = text.removesuffix(_OVERWRITE).rstrip().rpartition(" ")
        if not count.lstrip("-").isdecimal() or not symbol:
            raise UserError(f"{path}: line {text[:60]!r} is not a symbol with a count", "get it again")
        if symbol in ids and not is_overwriting:
            raise UserError(f"{path} lists {symbol!r} twice, without {_OVERWRITE}", "get it again")
        if symbol in ids:
            symbols[ids[symbol]] = f"<id_{ids[symbol]}>"
        ids[symbol] = len(symbols)
        symbols.append(symbol)
    return _specials_kept(symbols, ids)


def _specials_kept(symbols: list[str], ids: Mapping[str, int]) -> list[str]:
    """Returns the symbols with the names of padding, end and unknown restored at their ids if they were overwritten."""
    kept = list(symbols)
    for number in (_PAD, _EOS, _UNKNOWN):
        if kept[number] != _SYMBOLS[number]:
            kept[ids[_SYMBOLS[number]]] = f"<id_{ids[_SYMBOLS[number]]}>"
            kept[number] = _SYMBOLS[number]
    return kept
