"""Models of fairseq and their dictionaries."""

import argparse
import functools
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from t2t.formats.fairseq import KNOWN, parse_dictionary, read_settings
from t2t.formats.pytorch import parse_checkpoint
from tests.errors import refused
from tests.reference import fairseq as theirs
from tests.reference.marian import pytorch_file
from tests.unit.formats.imports import log_probs, put, setting
from tests.unit.formats.test_formats_import_pytorch import Malicious

POSITIONS = np.random.default_rng(3).normal(size=(2, 34, 8)).astype(np.float32)


def learned(values, tensors):
    for side, table in zip(("encoder", "decoder"), POSITIONS, strict=True):
        tensors[f"{side}.embed_positions.weight"] = table


def normalised(values, tensors):
    for side, vectors in zip(("encoder", "decoder"), POSITIONS, strict=True):
        tensors |= {f"{side}.layernorm_embedding.{name}": vectors[row] for row, name in enumerate(("weight", "bias"))}


PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
FORMS = {
    "post-norm": ({}, None),
    "pre-norm, gelu, a tied output": (
        PRE | {"activation_fn": "gelu", "share_decoder_input_output_embed": True}, None,
    ),
    "one table, no scale, gelu by tanh": (
        {"share_all_embeddings": True, "no_scale_embedding": True, "activation_fn": "gelu_accurate"}, None,
    ),
    "one table, no positions": ({"share_all_embeddings": True, "no_token_positional_embeddings": True}, None),
    "learned positions": ({"encoder_learned_pos": True, "decoder_learned_pos": True}, learned),
    "norms of embeddings, a decoder of other sizes": (
        {"layernorm_embedding": True, "decoder_attention_heads": 4, "decoder_ffn_embed_dim": 20}, normalised,
    ),
}  # fmt: skip


def ours(ids):
    """Ids here: padding 1, end 2 and unknown 3 become 0, 1 and 2, the beginning 3."""
    return [{1: 0, 2: 1, 3: 2, 0: 3}.get(number, number) for number in ids]


@pytest.fixture
def model(importing):
    return importing("fairseq")


@pytest.fixture
def write(model, monkeypatch):
    """Returns a function that writes the model; see `write_model`."""
    return functools.partial(theirs.write_model, model.model, monkeypatch)


def check_probabilities(loaded, values, tensors, source=(4, 7, 10, 11, 2), target=(6, 3, 9, 4, 2)):
    expected_TV = theirs.Network(values, tensors).log_probs(list(source), list(target))
    found_TV = log_probs(loaded, ours(source), ours(target))
    np.testing.assert_allclose(found_TV[:, ours(range(expected_TV.shape[1]))], expected_TV, atol=1e-5)


@pytest.mark.parametrize(("changes", "edit"), FORMS.values(), ids=FORMS)
def test_targets_have_the_same_probabilities(model, write, changes, edit):
    written = write(edit, **changes)
    check_probabilities(model.build()[0], *written)


def as_older(values, tensors):
    """With joint query, key and value projections, numbered norms and another name of the output layer."""
    kept = dict(tensors)
    tensors.clear()
    for name, array in kept.items():
        if ".q_proj." in name:
            parts = [kept[name.replace("q_proj", f"{letter}_proj")] for letter in "qkv"]
            tensors[name.replace("q_proj.", "in_proj_")] = np.concatenate(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            numbers = {"self_attn": 0, "encoder_attn": 1, "final": 2 if "decoder" in name else 1}
            for kind, number in numbers.items():
                name = name.replace(f".{kind}_layer_norm.", f".layer_norms.{number}.")
            tensors["decoder.embed_out" if "output_projection" in name else name] = array


def test_a_file_of_an_older_version_is_read(model, write):
    originals = {}
    _, old = write(lambda values, tensors: (originals.update(tensors), as_older(values, tensors)), stream=True)
    assert "encoder.layers.0.self_attn.in_proj_bias" in old
    check_probabilities(model.build()[0], theirs.settings(), originals)


def test_texts_have_the_ids_of_the_dictionary(model, write):
    write()
    loaded, report = model()
    encoder, symbols = loaded.problem.encoders["inputs"], theirs.symbols_of("en")
    for text, pieces in {"the dog": ["the", "do@@", "g"], "  cat\tthe ": ["c@@", "<unk>", "the"], "": []}.items():
        assert encoder.encode(text) == ours([symbols.index(piece) for piece in pieces])
    assert encoder.encode("</s>") == [2, 2, 2, 2]
    assert encoder.decode(encoder.encode("the dog runs")) == "the dog runs"
    assert "texts: cut by the BPE codes bpecodes" in report.lines()
    assert report.lines()[2] == "ids: padding 1, end of sequence 2 and unknown 3 became 0, 1 and 2"


def test_without_codes_texts_are_words(model, write):
    write(setting(bpe="fastbpe"))
    model.replace("bpecodes")
    read = model.read()
    assert read.problem.encoders["targets"].encode("der H@@ und") == ours([4, 5, 3])
    assert ["fastbpe" in text for text in read.warnings] == [True]


def test_alignments_are_those_of_the_heads_that_the_settings_name(model, write):
    write(setting(arch="transformer_align", alignment_layer=0, alignment_heads=1))
    hparams = model.read().hparams
    assert (hparams.alignment_layer, hparams.alignment_head) == (1, 1)


def omegaconf(monkeypatch, tree):
    """Returns a configuration as OmegaConf pickles it: containers and nodes with references to their parents."""
    module = types.ModuleType("omegaconf.dictconfig")
    for name in ("DictConfig", "AnyNode", "ListConfig"):
        setattr(module, name, type(name, (), {"__module__": "omegaconf.dictconfig"}))
    monkeypatch.setitem(sys.modules, "omegaconf.dictconfig", module)
    monkeypatch.setitem(sys.modules, "omegaconf", types.ModuleType("omegaconf"))

    def node(value, parent):
        made = getattr(module, {dict: "DictConfig", list: "ListConfig"}.get(type(value), "AnyNode"))()
        made._parent = parent
        if isinstance(value, dict):
            made._content = {name: node(item, made) for name, item in value.items()}
        elif isinstance(value, list):
            made._content = [node(item, made) for item in value]
        else:
            made._val = value
        return made

    return node(tree, None)


def test_settings_are_data_whatever_holds_them(monkeypatch):
    tree = {
        "model": {"_name": "transformer", "encoder_layers": 2, "max_source_positions": "${task.most.positions}",
                  "cut": [1, 2]},
        "task": {"_name": "translation", "source_lang": "en", "most": {"positions": 9}},
    }  # fmt: skip
    plain = {"model": argparse.Namespace(arch="transformer", encoder_layers=2), "task": tree["task"]}

    def read(cfg):
        state = {"cfg": cfg, "args": None, "model": {"a": np.zeros(2, np.float32)}}
        return read_settings(parse_checkpoint(pytorch_file(state, monkeypatch), KNOWN), "here")

    for found in map(read, (tree, omegaconf(monkeypatch, tree))):
        assert (found["arch"], found["task"], found["encoder_layers"]) == ("transformer", "translation", 2)
        assert (found["max_source_positions"], found["cut"]) == (9, [1, 2])
    assert read(plain)["encoder_layers"] == 2
    with refused("here:", "cfg", "args"):
        read_settings({"cfg": None}, "here")


def test_nothing_of_a_checkpoint_is_executed(model, write, monkeypatch):
    """Neither forbidden objects nor allowed ones: for the latter, a record names what would have been called."""

    class Known:
        def __reduce__(self):
            return argparse.FileType, (str(model.folder / "made"), "w")

    record = parse_checkpoint(pytorch_file({"a": Known()}, monkeypatch), KNOWN)["a"]
    assert (record.name, record.arguments) == ("argparse.FileType", (str(model.folder / "made"), "w"))
    write(lambda values, _: values.update(other=Malicious(model.folder / "made")))
    model.is_refused("model.pt", "io.open")
    assert not (model.folder / "made").exists()


# === Errors ===
@pytest.mark.parametrize(
    ("changes", "edit", "named"),
    [
        ({}, setting(arch="lightconv"), ["'lightconv'", "transformer*"]),
        ({}, setting(arch="transformer_lm_big"), ["'transformer_lm_big'"]),
        ({}, setting(task="translation_lev"), ["task='translation_lev'"]),
        ({}, setting(adaptive_input=True, activation_fn="tanh"), ["activation_fn='tanh'", "adaptive_input=True"]),
        ({}, setting(decoder_embed_dim=16), ["encoder_embed_dim=8", "decoder_embed_dim=16"]),
        ({}, setting(encoder_normalize_before=True), ["encoder_normalize_before=True", "decoder_normalize_before=Fal"]),
        ({}, setting(decoder_output_dim=4), ["decoder_output_dim=4", "decoder_embed_dim"]),
        ({}, setting(encoder_layers="2"), ["encoder_layers='2'", "int"]),
        ({}, setting(dropout="much"), ["model.pt", "dropout='much'"]),
        ({}, setting(source_lang=None), ["source_lang", "target_lang"]),
        ({}, setting(source_lang="fr"), ["dict.fr.txt"]),
        ({}, put("decoder.extra", [1]), [1, "decoder.extra"]),
        ({}, put("encoder.embed_tokens.weight", [[1]]), [1, 13]),
        ({"share_all_embeddings": True}, put("decoder.output_projection.weight", [1]), ["output_projection.weight"]),
        (PRE, put("decoder.version", [2]), ["decoder.version", 2]),
    ],
)
def test_another_network_is_refused(model, write, changes, edit, named):
    write(edit, **changes)
    model.is_refused(*named)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("model.pt", b"none", ["model.pt"]),
        ("model.pt", None, ["--model_dir=", "*.pt"]),
        ("dict.en.txt", b"the\n", ["dict.en.txt", "'the'"]),
        ("dict.en.txt", b"the 1\nthe 2\n", ["dict.en.txt", "'the'", "#fairseq:overwrite"]),
        ("dict.de.txt", b"\xff 1\n", ["dict.de.txt", "UTF-8"]),
        ("bpecodes", b"a b c\n", ["c'"]),
        ("spm.model", b"x", ["bpecodes", "spm.model"]),
        ("codes", b"x", ["bpecodes", "codes", ".en", ".de"]),
    ],
)
def test_files_that_are_missing_or_damaged(model, write, name, content, named):
    write()
    model.replace(name, content)
    model.is_refused(*named)


def test_one_table_for_two_dictionaries_is_refused(model, write):
    write(share_all_embeddings=True)
    lines = (model.model / "dict.de.txt").read_bytes().splitlines(keepends=True)
    model.replace("dict.de.txt", b"".join(reversed(lines)))
    model.is_refused("share_all_embeddings")


# === Dictionaries ===

FILE = Path("dict.en.txt")


FIXED = ["<s>", "<pad>", "</s>", "<unk>"]


@pytest.mark.parametrize(
    ("content", "symbols"),
    [
        ("the 12\n\u2028 3\nmadeupword0000 0\n", [*FIXED, "the", "\u2028", "madeupword0000"]),
        # A symbol that is overwritten has the later id.
        ("the 1\na 1\nthe 2 #fairseq:overwrite\n", [*FIXED, "<id_4>", "a", "the"]),
        # The ids of padding, end and unknown stay. Texts with these words get later ids in fairseq; here none do.
        ("<unk> 1 #fairseq:overwrite\n<s> 1 #fairseq:overwrite\n", ["<id_0>", *FIXED[1:], "<id_4>", "<s>"]),
    ],
)
def test_symbols_come_after_the_four_that_are_fixed(content, symbols):
    assert parse_dictionary(content.encode(), FILE) == symbols


@pytest.mark.parametrize("content", [b"the\n", b" 3\n", b"the x\n", b"<unk> 1\n"])
def test_lines_of_no_symbol_are_named(content):
    with refused(FILE):
        parse_dictionary(content, FILE)
