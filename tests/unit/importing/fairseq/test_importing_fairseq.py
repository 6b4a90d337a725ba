"""Translators of fairseq: settings read as data, the same ids and probabilities, and errors.

Legend: T target length, V vocabulary.
"""

import argparse
import enum
import sys
import types

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.importing.fairseq.settings import KNOWN, read_settings
from t2t.importing.formats import ImportRequest
from t2t.importing.pytorch import parse_checkpoint
from t2t.importing.run import import_run
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference import fairseq as theirs
from tests.reference.marian import pytorch_file

POSITIONS = np.random.default_rng(3).normal(size=(2, 34, 8)).astype(np.float32)


def learned(values, tensors):
    for side, table in zip(("encoder", "decoder"), POSITIONS, strict=True):
        tensors[f"{side}.embed_positions.weight"] = table


def normalised(values, tensors):
    for side, vectors in zip(("encoder", "decoder"), POSITIONS, strict=True):
        tensors |= {f"{side}.layernorm_embedding.{name}": vectors[row] for row, name in enumerate(("weight", "bias"))}


FORMS = {
    "post-norm": ({}, None),
    "pre-norm, gelu, a tied output": (
        {
            "encoder_normalize_before": True, "decoder_normalize_before": True, "activation_fn": "gelu",
            "share_decoder_input_output_embed": True,
        },
        None,
    ),
    "one table, no scale, gelu by tanh": (
        {"share_all_embeddings": True, "no_scale_embedding": True, "activation_fn": "gelu_accurate"}, None,
    ),
    "one table, no positions": ({"share_all_embeddings": True, "no_token_positional_embeddings": True}, None),
    "learned positions": ({"encoder_learned_pos": True, "decoder_learned_pos": True}, learned),
    "norms of embeddings": ({"layernorm_embedding": True}, normalised),
}  # fmt: skip


def ours(ids):
    """Ids here: padding 1, end 2 and unknown 3 become 0, 1 and 2, the beginning 3."""
    return [{1: 0, 2: 1, 3: 2, 0: 3}.get(number, number) for number in ids]


@pytest.fixture
def request_of(tmp_path):
    return ImportRequest(format="fairseq", model_dir=tmp_path / "model", output_dir=tmp_path / "run")


def assert_same_probabilities(loaded, values, tensors, source=(4, 7, 10, 11, 2), target=(6, 3, 9, 4, 2)):
    expected_TV = theirs.Network(values, tensors).log_probs(list(source), list(target))
    batch = {"inputs": np.array([[*ours(source), 0]], np.int32), "targets": np.array([[*ours(target), 0]], np.int32)}
    logits_TV = numpy(loaded.model(batch))[0, : len(target)].astype(np.float64)
    found_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
    np.testing.assert_allclose(found_TV[:, ours(range(expected_TV.shape[1]))], expected_TV, atol=1e-5)


@pytest.mark.parametrize(("changes", "edit"), FORMS.values(), ids=FORMS)
def test_targets_have_the_same_probabilities(request_of, monkeypatch, changes, edit):
    values, tensors = theirs.write_model(request_of.model_dir, monkeypatch, edit, **changes)
    import_run(request_of)
    assert_same_probabilities(load(request_of.output_dir), values, tensors)


def test_one_table_for_two_dictionaries_is_refused(request_of, monkeypatch):
    theirs.write_model(request_of.model_dir, monkeypatch, share_all_embeddings=True)
    path = request_of.model_dir / "dict.de.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(UserError, match=r"its dictionaries differ, and the model has one table for both \(share_all"):
        import_run(request_of)


def test_a_file_of_an_older_version_is_read(request_of, monkeypatch):
    """With joint query, key and value projections, numbered norms, another name of the output layer, and one stream."""

    def edit(values, tensors):
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

    originals = {}
    _, old = theirs.write_model(
        request_of.model_dir, monkeypatch, lambda v, t: (originals.update(t), edit(v, t)), stream=True
    )
    assert "encoder.layers.0.self_attn.in_proj_bias" in old
    import_run(request_of)
    assert_same_probabilities(load(request_of.output_dir), theirs.settings(), originals)


def test_texts_have_the_ids_of_the_dictionary(request_of, monkeypatch):
    theirs.write_model(request_of.model_dir, monkeypatch)
    report = import_run(request_of)
    encoder = load(request_of.output_dir).problem.encoders["inputs"]
    symbols = theirs.symbols_of("en")
    for text, pieces in {"the dog": ["the", "do@@", "g"], "  cat\tthe ": ["c@@", "<unk>", "the"], "": []}.items():
        assert encoder.encode(text) == ours([symbols.index(piece) for piece in pieces])
    assert encoder.encode("</s>") == [2, 2, 2, 2]
    assert encoder.decode(encoder.encode("the dog runs")) == "the dog runs"
    assert "texts: cut by the BPE codes bpecodes" in report.lines()
    assert report.lines()[2] == "ids: padding 1, end of sequence 2 and unknown 3 became 0, 1 and 2"


def test_without_codes_texts_are_words(request_of, monkeypatch):
    theirs.write_model(request_of.model_dir, monkeypatch, lambda values, _: values.update(bpe="fastbpe"))
    (request_of.model_dir / "bpecodes").unlink()
    report = import_run(request_of)
    encoder = load(request_of.output_dir).problem.encoders["targets"]
    assert encoder.encode("der H@@ und") == ours([4, 5, 3])
    assert report.lines()[-1].startswith("warning: its texts are cut by fastbpe, whose file is not there")


class _Choice(enum.Enum):
    """Simulates an enum of fairseq."""

    RELU = "relu"


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
    tensors = {"model": {"a": np.zeros(2, np.float32)}}
    for cfg in (tree, omegaconf(monkeypatch, tree)):
        checkpoint = parse_checkpoint(pytorch_file({"cfg": cfg, "args": None, **tensors}, monkeypatch), KNOWN)
        found = read_settings(checkpoint, "here")
        assert (found["arch"], found["task"], found["encoder_layers"]) == ("transformer", "translation", 2)
        assert (found["max_source_positions"], found["cut"]) == (9, [1, 2])
    checkpoint = parse_checkpoint(pytorch_file({"cfg": plain, **tensors}, monkeypatch), KNOWN)
    assert read_settings(checkpoint, "here")["encoder_layers"] == 2
    with pytest.raises(UserError, match=r"here: it holds no settings of a model, neither cfg nor args; give a check"):
        read_settings({"cfg": None}, "here")


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_nothing_of_a_checkpoint_is_executed(request_of, monkeypatch, tmp_path):
    """Neither forbidden objects nor allowed ones: for the latter, a record names what would have been called."""

    def calls_known(*_):
        raise AssertionError("called")

    monkeypatch.setattr(argparse, "FileType", calls_known)
    monkeypatch.setattr(calls_known, "__module__", "argparse", raising=False)
    calls_known.__qualname__ = "FileType"

    class Known:
        def __reduce__(self):
            return calls_known, ("x",)

    record = parse_checkpoint(pytorch_file({"a": Known()}, monkeypatch), KNOWN)["a"]
    assert (record.name, record.arguments) == ("argparse.FileType", ("x",))

    def edit(values, _):
        values["other"] = Malicious(tmp_path / "made")

    theirs.write_model(request_of.model_dir, monkeypatch, edit)
    with pytest.raises(UserError, match=r"model.pt: it asks for _?io\.open, which no file of tensors needs; nothing"):
        import_run(request_of)
    assert not (tmp_path / "made").exists()


def setting(**changes):
    return lambda values, tensors: values.update(changes)


def put(name, array):
    return lambda values, tensors: tensors.__setitem__(name, np.asarray(array, np.float32))


PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}


@pytest.mark.parametrize(
    ("changes", "edit", "said"),
    [
        (
            {},
            setting(arch="lightconv"),
            r"its architecture is 'lightconv'; translators of transformer\* can be imported",
        ),
        ({}, setting(arch="transformer_lm_big"), r"its architecture is 'transformer_lm_big'"),
        ({}, setting(task="translation_lev"), r"another network than the models here: task='translation_lev' \(known"),
        (
            {},
            setting(adaptive_input=True, activation_fn="tanh"),
            r"activation_fn='tanh' .*; adaptive_input=T",
        ),
        ({}, setting(decoder_embed_dim=16), r"encoder_embed_dim=8 and decoder_embed_dim=16 \(known: equal ones\)"),
        ({}, setting(encoder_normalize_before=True), r"encoder_normalize_before=True and decoder_normalize_before=Fal"),
        ({}, setting(decoder_output_dim=4), r"decoder_output_dim=4 \(known: that of decoder_embed_dim\)"),
        ({}, setting(encoder_layers="2"), r"its settings have encoder_layers='2'; it must be of type int"),
        ({}, setting(source_lang=None), r"its settings name no source_lang and target_lang; give a translator"),
        ({}, setting(source_lang="fr"), r"no dict.fr.txt there; copy all files of the model"),
        ({}, put("decoder.extra", [1]), r"1 tensors that the model here has no place for: decoder.extra; this"),
        ({}, put("encoder.embed_tokens.weight", [[1]]), r"has 1 rows, the dictionary 13 symbols; give the files of"),
        (
            {"share_all_embeddings": True},
            put("decoder.output_projection.weight", [1]),
            r"output_projection.weight is not",
        ),
        (PRE, put("decoder.version", [2]), r"decoder.version is 2, of which fairseq leaves out the norm at the end"),
    ],
)
def test_another_network_is_refused(request_of, monkeypatch, changes, edit, said):
    theirs.write_model(request_of.model_dir, monkeypatch, edit, **changes)
    with pytest.raises(UserError, match=said):
        import_run(request_of)
    assert not request_of.output_dir.exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.pt", b"none", r"model.pt: it is no PyTorch file; get the file again"),
        ("model.pt", None, r"--model_dir=.*: it has no checkpoint \(\*\.pt\); name the one to import model.pt"),
        ("dict.en.txt", b"the\n", r"dict.en.txt: line 'the' is no symbol with a count; get it again"),
        ("dict.en.txt", b"the 1\nthe 2\n", r"dict.en.txt lists 'the' twice, without #fairseq:overwrite; get it"),
        ("dict.de.txt", b"\xff 1\n", r"dict.de.txt is not UTF-8"),
        ("bpecodes", b"a b c\n", r"BPE codes: 'a b c' is no pair of pieces; get the codes again"),
        ("spm.model", b"x", r"it has both BPE codes and SentencePiece models, bpecodes, spm.model; leave one kind"),
        ("codes", b"x", r"bpecodes, codes could all cut texts; leave one, or one that ends with .en and one that end"),
    ],
)
def test_files_that_are_missing_or_damaged(request_of, monkeypatch, name, content, said):
    theirs.write_model(request_of.model_dir, monkeypatch)
    if content is None:
        (request_of.model_dir / name).unlink()
    else:
        (request_of.model_dir / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        import_run(request_of)
