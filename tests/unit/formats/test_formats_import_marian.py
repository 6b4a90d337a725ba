"""Marian's own models: the same probabilities as its formulas, every kind of vocabulary, and errors."""

import functools
import io

import numpy as np
import pytest

from tests.reference import marian_native as theirs
from tests.unit.formats import imports
from tests.unit.formats.imports import drop, log_probs, put

SIZE = len(theirs.WORDS)
OTHERS = ["</s>", "<unk>", *"abcdefg"]
POSITIONS = np.random.default_rng(1).normal(size=(9, 8))
OUTPUT = np.random.default_rng(2).normal(size=(8, SIZE))


def setting(**changes):
    return imports.setting(**{name.replace("_", "-"): value for name, value in changes.items()})


def older_output(values, arrays):
    setting(tied_embeddings_all=False, tied_embeddings_src=True)(values, arrays)
    put("decoder_ff_logit_out_W", OUTPUT)(values, arrays)


@pytest.fixture
def model(importing):
    return importing("marian")


@pytest.fixture
def write(model):
    """Returns a function that writes a model and its vocabularies, and returns its settings and arrays.

    `edit` may change them before.
    """

    def write(edit=None, **changes):
        values = theirs.settings([SIZE, SIZE])
        setting(**changes)(values, None)
        arrays = theirs.random_arrays(values)
        if edit:
            edit(values, arrays)
        theirs.write_model(model.model, values, arrays)
        theirs.write_vocabulary(model.model / "vocab.yml", theirs.WORDS)
        theirs.write_vocabulary(model.model / "other.yml", OTHERS)
        second = "vocab.yml" if values["dim-vocabs"][1] == SIZE else "other.yml"
        lines = ["models:", "  - /far/model.npz", "vocabs:", "  - vocab.yml", f"  - /far/{second}", "beam-size: 3",
                 "normalize: 0.6"]  # fmt: skip
        model.replace("decoder.yml", "\n".join(lines).encode())
        return values, arrays

    return write


def ours(ids):
    """Returns our ids: shifted by padding, which Marian does not have."""
    return [number + 1 for number in ids]


FORMS = {
    "post-norm, one table": ({}, None),
    "pre-norm, two tables, the output's of its own": (
        {
            "transformer_preprocess": "n", "transformer_postprocess": "da", "transformer_postprocess_top": "n",
            "tied_embeddings_all": False, "dim_vocabs": [SIZE, len(OTHERS)],
        },
        None,
    ),
    "two tables, relu": (
        {
            "tied_embeddings_all": False, "tied_embeddings": True, "dim_vocabs": [SIZE, len(OTHERS)],
            "transformer_ffn_activation": "relu",
        },
        None,
    ),
    "one table of embeddings, rms norms, gelu": (
        {
            "tied_embeddings_all": False, "tied_embeddings_src": True, "transformer_postprocess": "dar",
            "transformer_ffn_activation": "gelu", "transformer_decoder_dim_ffn": 20,
        },
        None,
    ),
    "trained positions, embeddings without scale": ({}, put("Wpos", POSITIONS)),
    "a transposed output layer of older models": ({}, older_output),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "edit"), FORMS.values(), ids=FORMS)
def test_targets_have_the_same_probabilities(model, write, changes, edit):
    values, arrays = write(edit, **changes)
    loaded, read = model.build()
    assert read.tensors == len(arrays)
    assert (loaded.hparams.beam_size, loaded.hparams.alpha) == (3, 0.6)
    source, target = [2, 3, 4, 14, 0], [3, 8, 6, 2, 0]
    found_TV = log_probs(loaded, ours(source), ours(target))
    expected_TV = theirs.Network(values, arrays).log_probs(source, target)
    np.testing.assert_allclose(found_TV[:, 1:], expected_TV, atol=1e-5)
    assert np.exp(found_TV[:, 0]).max() < 1e-30


@pytest.mark.parametrize(("line", "is_named"), [("", True), ("allow-unk: false", True), ("allow-unk: true", False)])
def test_marian_writes_no_unknown_word_unless_it_may(model, write, line, is_named):
    write()
    model.replace("decoder.yml", (model.model / "decoder.yml").read_bytes() + f"\n{line}\n".encode())
    assert ["allow-unk: true" in text for text in model.read().warnings] == [True] * is_named


@pytest.mark.parametrize(("layer", "expected"), [("last", (2, 1)), ("1", (1, 1)), (None, (0, 0))])
def test_alignments_are_those_of_the_first_head_of_the_layer_that_the_settings_name(model, write, layer, expected):
    write(dec_depth=2, transformer_guided_alignment_layer=layer)
    hparams = model.read().hparams
    assert (hparams.alignment_layer, hparams.alignment_head) == expected


def test_words_are_read_whatever_yaml_makes_of_them(model, write):
    write()
    encoder = model()[0].problem.encoders["inputs"]
    words = {word: number for number, word in enumerate(theirs.WORDS[2:], start=3) if " " not in word}
    assert encoder.encode(" ".join(words)) == list(words.values())
    assert encoder.encode("never </s>") == [2, 2]
    assert encoder.decode(ours([2, 3, 1])) == "the dog <unk>"


# === Errors ===
def archive(save=np.savez, **arrays):
    content = io.BytesIO()
    save(content, **arrays)
    return content.getvalue()


before_norms = functools.partial(
    setting, transformer_preprocess="n", transformer_postprocess="da", transformer_postprocess_top="n"
)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (setting(type="s2s"), ["type='s2s'", "'transformer'"]),
        (setting(transformer_decoder_autoreg="rnn"), ["transformer-decoder-autoreg='rnn'", "'self-attention'"]),
        (setting(transformer_postprocess="dah"), ["-postprocess", "'ah'"]),
        (setting(transformer_preprocess="n"), ["'n'", "'an'"]),
        (before_norms(version="v1.9.5 abc"), ["v1.9.5", "1.11"]),
        (setting(transformer_postprocess_emb="n"), ["transformer-postprocess-emb='n'"]),
        (setting(transformer_decoder_dim_ffn="x"), ["transformer-decoder-dim-ffn='x'"]),
        (setting(lemma_dim_emb=4), ["lemma-dim-emb=4"]),
        (setting(enc_depth="x"), ["enc-depth='x'"]),
        (setting(tied_embeddings_all=False, tied_embeddings_src=True), ["decoder_ff_logit_out_Wt"]),
        (drop("encoder_l2_ffn_W1"), ["encoder_l2_ffn_W1"]),
        (put("extra", np.ones(2)), [1, "extra"]),
        (put("Wemb", np.ones((4, 8))), ["vocab.yml", 19, 4]),
        (lambda _, arrays: arrays.update(Wemb=np.ones((SIZE, 8), np.int8)), ["Wemb"]),
    ],
)
def test_another_network_is_refused(model, write, edit, named):
    write(edit)
    model.is_refused(*named)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("model.npz", b"none", ["model.npz"]),
        ("model.npz", None, ["model.npz"]),
        pytest.param("model.npz", archive(Wemb=np.ones((SIZE, 8))), ["special:model.yml"], id="model.npz-no settings"),
        pytest.param(
            "model.npz", archive(np.savez_compressed, Wemb=np.zeros(10**6, np.int8)), ["model.npz", 16], id="packed"
        ),
        pytest.param("model.npz", archive(Wemb=np.array(["a"])), ["Wemb.npy"], id="no-numbers"),
        ("vocab.yml", b"the 4\n", ["vocab.yml", "'the"]),
        ("vocab.yml", b"</s>: 0\n<unk>: 0\n", ["vocab.yml", 2]),
        ("vocab.yml", b"a: 0\n<unk>: 1\n", ["vocab.yml", "</s>"]),
        ("vocab.yml", b"\xff: 0\n", ["vocab.yml", "UTF-8"]),
        ("vocab.yml", None, ["vocab.yml"]),
        ("decoder.yml", b"a line", ["decoder.yml", "'a"]),
        ("decoder.yml", b"vocabs: " + b"[" * 9999 + b"]" * 9999, ["decoder.yml"]),
        ("decoder.yml", b"beam-size: 3\n- a\n", ["decoder.yml", "'-"]),
        ("decoder.yml", b"vocabs:\n- a.yml\n", ["decoder.yml", "['a.yml']", 2]),
        ("decoder.yml", b"vocabs:\n- vocab.yml\n- other.yml\n", ["vocab.yml", "other.yml"]),
        ("decoder.yml", b"vocabs:\n- a.fsv\n- vocab.yml\n", ["a.fsv"]),
        ("decoder.yml", b"models:\n- a.bin\n", ["a.bin", ".npz"]),
        ("decoder.yml", None, ["other.yml", "vocab.yml", "decoder.yml", 2]),
    ],
)
def test_files_that_are_missing_or_damaged(model, write, name, content, named):
    write()
    model.replace(name, content)
    model.is_refused(*named)
