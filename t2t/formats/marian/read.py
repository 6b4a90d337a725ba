"""Imports Marian models of `type: transformer`.

The network is the paper's Transformer with biases in attention and on logits, Tensor2Tensor's sinusoids, a decoder that
starts from zeros, and norms at the positions given by strings of letters. Source: Junczys-Dowmunt et al. 2018, *Marian:
Fast Neural Machine Translation in C++*, and its code, `models/transformer.h`.

The archive holds tensors and settings; `decoder.yml` names the files if there are several. A vocabulary is a
SentencePiece model, or words with ids in YAML and a file for splitting texts. Marian has no padding; it is added as a
separate id, unless the vocabulary has a word `<pad>`.

Legend: D width, V vocabulary, L positions.
"""

from __future__ import annotations

import functools
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, one_line
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import in_our_order, our_order
from t2t.formats.importer import ForeignRun, ImportRequest, Settings, alignment_hparams
from t2t.formats.marian.mapping import (
    ACTIVATIONS,
    EPSILON,
    NORM_LETTERS,
    OUTPUT,
    SETTINGS,
    SIZES,
    stack_names,
    table_names,
)
from t2t.formats.tensors import Tensors
from t2t.formats.yaml import parse_settings, parse_vocabulary
from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_variants import transformer_marian
from t2t.specs import INPUTS, PAD_ID, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.imported import BpeEncoder, PieceTableEncoder, pieces_of_model
from t2t.text.words import TokenEncoder

PAD_BIAS = -100.0
"""Logit bias of an added padding id: its probability is negligible, but losses with label smoothing stay small."""

_FALSE = (False, None)
_KNOWN: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",), "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-activation": tuple(ACTIVATIONS), "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2, None), "transformer-no-projection": _FALSE, "transformer-pool": _FALSE,
    "transformer-tied-layers": ([], None), "transformer-no-bias": _FALSE, "transformer-no-affine": _FALSE,
    "transformer-disable-position-embeddings": _FALSE, "transformer-attention-mask": ("default", None),
    "lemma-dim-emb": (0, None), "factors-dim-emb": (0, None), "ulr": _FALSE, "right-left": _FALSE,
    "input-types": ([], None, ["sequence", "sequence"]),
}  # fmt: skip
_FORMS = {("", "a{}", ""): "post", ("{}", "a", "{}"): "pre"}
"""Letters before and after sub-layers and after a stack, without dropout -> `norm_position`."""
_NORMS_KEYS = (1, 11)
"""From this version on, pre-norm self-attention also norms keys and values."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder with a model and its vocabularies.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    files = MarianFolder(request.model_dir)
    hparams = _hparams(files)
    tensors = Tensors({n: a for n, a in files.archive.items() if n != SETTINGS}, str(files.path / files.model))
    if rounded := [name for name, array in files.archive.items() if name != SETTINGS and array.dtype.kind != "f"]:
        raise UserError(f"{files.path / files.model}: {rounded[0]} is not a float", "give the unquantized model")
    names = table_names(hparams.shared_embedding)
    sizes = [len(tensors.take(names[which])) for which in ("source_embedding", "target_embedding")]
    files_of = files.vocabularies()
    source, target = (
        read_vocabulary(files, name, side, rows)
        for name, side, rows in zip(files_of, ("source", "target"), sizes, strict=True)
    )
    if hparams.shared_embedding and source.encoder.ids_fingerprint != target.encoder.ids_fingerprint:
        raise UserError(
            f"{files.path}: {' and '.join(files_of)} differ, and the model has one table for both",
            "give the files of one model",
        )
    weights = _weights(tensors, hparams, source, target, _is_tied(files))
    tensors.drop("decoder_c_tt", "not used by Transformers")
    layer = str(files.settings.get("transformer-guided-alignment-layer"))  # its first head has the alignments
    index = -1 if layer == "last" else int(layer) - 1 if layer.isdecimal() else None
    alignment, warnings = alignment_hparams(index, 1, hparams)
    return ForeignRun(
        problem=request.problem.with_encoders({INPUTS: source.encoder, TARGETS: target.encoder}),
        hparams=hparams.replace(**alignment),
        hparams_set="transformer_marian",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {files.path / files.model}",
        settings="its settings and vocabularies",
        notes=tuple(f"{side}: {found.described}" for side, found in (("source", source), ("target", target))),
        warnings=(*_warnings(files), *warnings),
    )


def _warnings(files: MarianFolder) -> tuple[str, ...]:
    found, penalty = [], files.decoder.get("word-penalty") or 0
    if penalty:
        found.append(f"decoder.yml has word-penalty={penalty}, which the search here does not have")
    if files.decoder.get("allow-unk") is not True:
        found.append("decoder.yml has no allow-unk: true, so Marian writes no <unk>; the search here may write it")
    return tuple(found)


def _hparams(files: MarianFolder) -> TransformerHParams:
    """Returns the hparams of the network, with `transformer_marian`'s values for training."""
    settings = files.settings
    wrong = list[str]()
    inner = settings.need("transformer-dim-ffn")
    inner_of_decoder = (
        settings.need("transformer-decoder-dim-ffn") if settings.get("transformer-decoder-dim-ffn") else 0
    )
    steps = [_letters(settings, name) for name in ("preprocess", "postprocess", "postprocess-top")]
    forms = {
        tuple(step.format(c) for step in form): (p, n) for form, p in _FORMS.items() for n, c in NORM_LETTERS.items()
    }
    if tuple(steps) not in forms:
        found = ", ".join(map(repr, steps))
        wrong.append(f"transformer-preprocess, -postprocess and -postprocess-top are {found} without dropout")
    if _letters(settings, "postprocess-emb"):
        wrong.append(f"transformer-postprocess-emb={settings['transformer-postprocess-emb']!r} (known: 'd', '')")
    settings.check(_KNOWN, wrong)
    norm_position, norm_type = forms[tuple(steps)]
    if norm_position == "pre":
        _check_version(files)
    is_source = bool(settings.get("tied-embeddings-all") or settings.get("tied-embeddings-src"))
    learned = files.archive.get("Wpos")
    recipe = transformer_marian()
    return recipe.replace(
        **{ours: settings.need(theirs) for theirs, ours in SIZES.items()},
        decoder_filter_size=0 if inner_of_decoder == inner else inner_of_decoder,
        activation=ACTIVATIONS[settings.get("transformer-ffn-activation") or "swish"],
        norm_position=norm_position,
        norm_type=norm_type,
        norm_epsilon=EPSILON,
        positions="sinusoidal" if learned is None else "learned",
        sinusoid_layout="split" if learned is None else "interleaved",
        output_bias=True,
        shared_embedding=is_source,
        shared_embedding_and_softmax_weights=_is_tied(files) and learned is None,
        max_length=recipe.max_length if learned is None else len(learned),
        beam_size=int(_search_number(files, "beam-size", recipe.beam_size)),
        alpha=_search_number(files, "normalize", recipe.alpha),
    )


def _is_tied(files: MarianFolder) -> bool:
    """Returns whether the output layer shares the target embedding table."""
    return bool(files.settings.get("tied-embeddings-all") or files.settings.get("tied-embeddings"))


def _search_number(files: MarianFolder, name: str, default: float) -> float:
    """Returns a number from decoder.yml, or the default if it is missing."""
    value: Any = files.decoder.get(name)
    return float(value) if type(value) in (int, float) else default


def _check_version(files: MarianFolder) -> None:
    """Raises UserError for a pre-norm model of a version that does not norm keys and values of self-attention."""
    version = str(files.settings.get("version"))
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _NORMS_KEYS:
        raise UserError(
            f"{files.path / files.model}: it has norms before sub-layers and is of version {version}",
            "before 1.11 Marian did not norm keys and values of self-attention, as the models here do, so it cannot "
            "be imported",
        )


def _letters(settings: Any, name: str) -> str:
    """Returns the letters of a setting, without d for dropout."""
    return str(settings.get(f"transformer-{name}") or "").replace("d", "")


def _weights(
    tensors: Tensors, hparams: Any, source: MarianVocabulary, target: MarianVocabulary, is_tied: bool
) -> Arrays:
    """Returns the weights by our paths."""
    names = table_names(hparams.shared_embedding)
    learned = hparams.positions == "learned"
    # Marian only scales embeddings if sinusoids are added; our embedding layers always do.
    scale = np.float32(hparams.hidden_size**-0.5 if learned else 1.0)
    target_VD = tensors.take(names["target_embedding"])
    weights = {"target_embedding/table": _rows(target_VD, target.order) * scale}
    if not hparams.shared_embedding:
        weights["source_embedding/table"] = _rows(tensors.take(names["source_embedding"]), source.order) * scale
    if not hparams.shared_embedding_and_softmax_weights:
        of_layer = tensors.take(f"{OUTPUT}_W").T if f"{OUTPUT}_W" in tensors else None  # as older models have it
        output_VD = target_VD if is_tied else tensors.take(f"{OUTPUT}_Wt") if of_layer is None else of_layer
        weights["output_embedding/table"] = _rows(output_VD, target.order)
    bias_V = tensors.take(f"{OUTPUT}_b").reshape(-1) if f"{OUTPUT}_b" in tensors else np.zeros(len(target_VD), "f")
    weights["output_embedding/bias"] = _rows(bias_V, target.order)
    if target.order[PAD_ID] == len(target_VD):
        weights["output_embedding/bias"][PAD_ID] = PAD_BIAS
    if learned:
        weights["positions/table"] = tensors.take("Wpos")
    for name, path in stack_names(hparams).items():
        array = tensors.take(name)
        weights[path] = array if path.endswith("kernel") else array.reshape(-1)
    return weights


def _rows(array: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Returns rows in our order, float32, with zeros for added padding."""
    zeros = np.zeros((max(0, int(order.max()) + 1 - len(array)), *array.shape[1:]), array.dtype)
    rows: np.ndarray = np.concatenate([array, zeros])[order]
    return rows


_VOCABULARY_ENDINGS = (".yml", ".yaml", ".json", ".spm")
_MOST_UNPACKED = 16
"""Most bytes that a byte of an archive may unpack to; weights hardly become smaller by compression."""
_OTHER = ("decoder.yml", ".npz.yml", ".progress.yml", "config.yml", "source.spm", "target.spm")
"""Endings of files that are not vocabularies."""


class MarianFolder(ModelFolder):
    """A folder with a model. If there are several candidates, `decoder.yml` or `<model>.decoder.yml` names its files.

    Raises:
        UserError: no model, several models, or a model that is not .npz.
    """

    def __init__(self, folder: Path):
        super().__init__(folder)
        names = [path.name for path in folder.glob("*decoder.yml")]
        self._decoder_yml = "decoder.yml" if "decoder.yml" in names else names[0] if len(names) == 1 else ""
        self.model = self._find("models", sorted(path.name for path in folder.glob("*.npz")), 1)[0]
        if not self.model.endswith(".npz"):
            raise UserError(f"{folder / self.model}: models that can be imported are .npz", "convert it to one")

    @functools.cached_property
    def decoder(self) -> Mapping[str, Any]:
        """Search settings from decoder.yml; empty without that file."""
        return self._parse(self._decoder_yml, self.read(self._decoder_yml)) if self._decoder_yml else {}

    @functools.cached_property
    def archive(self) -> Arrays:
        """The arrays of the model, including its settings."""
        content = self.read(self.model)
        try:
            return _arrays(content)
        except Exception as error:  # damage raises many kinds
            raise UserError(f"{self.path / self.model}: it is damaged ({one_line(error)})", "get it again") from error

    @functools.cached_property
    def settings(self) -> Settings:
        """Settings of the network."""
        if SETTINGS not in self.archive:
            raise UserError(f"{self.path / self.model} has no {SETTINGS}, which describes its network", "get it again")
        found = self._parse(f"{self.model} ({SETTINGS})", self.archive[SETTINGS].tobytes().rstrip(b"\0"))
        return Settings(found, self.path / self.model)

    def vocabularies(self) -> list[str]:
        """Returns the names of the vocabularies of source and target; raises UserError if they are ambiguous."""
        paths = sorted(path.name for path in self.path.iterdir() if path.suffix in _VOCABULARY_ENDINGS)
        return self._find("vocabs", [name for name in paths if not name.endswith(_OTHER)], 2)

    def _find(self, what: str, found: list[str], count: int) -> list[str]:
        """Returns the file names listed in decoder.yml, without folders, or else the only candidate, for all uses."""
        listed = self.decoder.get(what)
        if isinstance(listed, list) and len(listed) == count and all(isinstance(name, str) for name in listed):
            return [name.rpartition("/")[2] for name in listed]
        if listed:
            raise UserError(f"{self.path / self._decoder_yml}: {what} are {listed}", f"a translator has {count}")
        if len(found) != 1:
            raise UserError(
                f"of {', '.join(found) or 'no files'} it is not clear which are the {what}",
                f"name {count} in a decoder.yml there, as Marian writes it next to a model",
                option="model_dir",
                value=self.path,
            )
        return found * count

    def _parse(self, name: str, content: bytes) -> dict[str, Any]:
        try:
            return parse_settings(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self.path / name}: {one_line(error)}", "get it again") from error


def _arrays(content: bytes) -> Arrays:
    """Returns the arrays of an npz archive; nothing is unpickled, and memory is bound by the size of the archive."""
    archive, arrays = zipfile.ZipFile(io.BytesIO(content)), Arrays()
    if sum(info.file_size for info in archive.infolist()) > _MOST_UNPACKED * len(content):
        raise ValueError(f"it unpacks to more than {_MOST_UNPACKED} times its size")
    for info in archive.infolist():
        with archive.open(info) as file:  # numpy reads as much as the header of an array says, in small blocks
            array = np.lib.format.read_array(file, allow_pickle=False)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{info.filename} has values of type {array.dtype}, not numbers")
        arrays[info.filename.removesuffix(".npy")] = array
    return arrays


PAD = "<pad>"
_NEMATUS = ("eos", "UNK")
"""Possible names of ids 0 and 1 in older vocabularies."""
_ENDS = ("</s>", "<unk>")


@dataclass(frozen=True)
class MarianVocabulary:
    """One side's vocabulary."""

    encoder: TextEncoder
    order: np.ndarray
    """Marian's id of each of our ids; for added padding, the number of Marian's ids."""
    described: str
    """Description for the report."""


def read_vocabulary(files: MarianFolder, name: str, side: str, rows: int) -> MarianVocabulary:
    """Reads the vocabulary of a side, `source` or `target`, for a table of `rows` rows.

    Raises:
        UserError: it is damaged, of an unsupported kind, or has more words than the table has rows.
    """
    if name.endswith((".fsv", ".fm")):
        raise UserError(f"{files.path / name}: it is a factored vocabulary", "the models here have one id a word")
    if name.endswith(".spm"):
        model = files.read(name)
        pieces, (pad, eos, unknown) = pieces_of_model(model)
        pieces, order = _ordered(files, name, pieces, rows, (pad, eos, unknown))
        return MarianVocabulary(PieceTableEncoder(model, pieces, tags=False), order, f"the SentencePiece model {name}")
    pieces = _pieces_of_yaml(files, name)
    pieces, order = _ordered(files, name, pieces, rows, _special_ids(files, name, pieces))
    if files.has(cutter := f"{side}.spm"):
        has_tags = any(piece.startswith(">>") and piece.endswith("<<") for piece in pieces)
        encoder: TextEncoder = PieceTableEncoder(files.read(cutter), pieces, tags=has_tags)
        return MarianVocabulary(encoder, order, f"{name}, cut by {cutter}")
    if files.has(cutter := f"{side}.bpe"):
        return MarianVocabulary(BpeEncoder(files.read(cutter), pieces), order, f"{name}, cut by {cutter}")
    return MarianVocabulary(TokenEncoder(pieces[3:]), order, f"the words of {name}, as they stand")


def _pieces_of_yaml(files: MarianFolder, name: str) -> list[str]:
    """Returns the words by id; an id without a word is named by its number."""
    try:
        ids = parse_vocabulary(files.read_text(name))
    except (ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{files.path / name}: {one_line(error)}", "get it again") from error
    if len(set(ids.values())) < len(ids) or max(ids.values(), default=0) > 2 * len(ids):
        raise UserError(f"{files.path / name}: its {len(ids)} words do not have an id each", "get it again")
    pieces = [_name(number) for number in range(max(ids.values(), default=-1) + 1)]
    for word, number in ids.items():
        pieces[number] = word
    return pieces


def _special_ids(files: MarianFolder, name: str, pieces: Sequence[str]) -> tuple[int, int, int]:
    """Returns the ids of padding (-1 if missing), end of sequence and unknown."""
    ids = [pieces.index(PAD) if PAD in pieces else -1]
    for number, (old, end) in enumerate(zip(_NEMATUS, _ENDS, strict=True)):
        if pieces[number : number + 1] in ([old], [_name(number)]):
            ids.append(number)
        elif end in pieces:
            ids.append(pieces.index(end))
        else:
            raise UserError(f"{files.path / name} has no {end}", "get it again")
    return ids[0], ids[1], ids[2]


def _ordered(
    files: MarianFolder, name: str, pieces: Sequence[str], rows: int, special: tuple[int, int, int]
) -> tuple[list[str], np.ndarray]:
    """Returns the pieces by our ids, and Marian's id of each; rows without a word get a made-up name."""
    if len(pieces) > rows:
        raise UserError(f"{files.path / name} has {len(pieces)} words, the table {rows} rows", "give one model's files")
    pad, eos, unknown = special
    named = [*pieces, *map(_name, range(len(pieces), rows))]
    if pad < 0:
        pad, named = rows, [*named, PAD]
    order = our_order(len(named), pad, eos, unknown)
    return [PAD, *_ENDS, *in_our_order(named, order)[3:]], order


def _name(number: int) -> str:
    return f"<id_{number}>"
