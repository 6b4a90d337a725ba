"""Marian's own models: the same probabilities as its formulas, every kind of vocabulary, and errors.

Legend: T target length, V vocabulary.
"""

import importlib

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference import marian_native as theirs

SIZE = len(theirs.WORDS)
OTHERS = ["</s>", "<unk>", *"abcdefg"]
FORMS = {
    "post-norm, one table": {},
    "pre-norm, two tables, the output's of its own": {
        "transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n",
        "tied-embeddings-all": False, "dim-vocabs": [SIZE, len(OTHERS)],
    },
    "two tables, relu": {
        "tied-embeddings-all": False, "tied-embeddings": True, "dim-vocabs": [SIZE, len(OTHERS)],
        "transformer-ffn-activation": "relu",
    },
    "one table of embeddings, rms norms, gelu": {
        "tied-embeddings-all": False, "tied-embeddings-src": True, "transformer-postprocess": "dar",
        "transformer-ffn-activation": "gelu", "transformer-decoder-dim-ffn": 12,
    },
}  # fmt: skip


def make(folder, edit=None, **changes):
    """Writes a model and its vocabularies; returns its settings and arrays, which `edit` may change before."""
    values = theirs.settings([SIZE, SIZE]) | changes
    arrays = theirs.random_arrays(values)
    if edit:
        edit(values, arrays)
    theirs.write_model(folder, values, arrays)
    theirs.write_vocabulary(folder / "vocab.yml", theirs.WORDS)
    theirs.write_vocabulary(folder / "other.yml", OTHERS)
    second = "vocab.yml" if values["dim-vocabs"][1] == SIZE else "other.yml"
    lines = ["models:", "  - /far/model.npz", "vocabs:", "  - vocab.yml", f"  - /far/{second}", "beam-size: 3",
             "normalize: 0.6"]  # fmt: skip
    (folder / "decoder.yml").write_text("\n".join(lines))
    return values, arrays


def request_of(tmp_path):
    return ImportRequest(format="marian", model_dir=tmp_path / "model", output_dir=tmp_path / "run")


def ours(ids):
    """Returns our ids: shifted by padding, which Marian does not have."""
    return [number + 1 for number in ids]


def assert_same_probabilities(loaded, values, arrays, source, target):
    """Compares the probabilities of foreign ids, which include end of sequence."""
    expected_TV = theirs.Network(values, arrays).log_probs(source, target)
    batch = {"inputs": np.array([[*ours(source), 0]], np.int32), "targets": np.array([[*ours(target), 0]], np.int32)}
    logits_TV = numpy(loaded.model(batch))[0, : len(target)].astype(np.float64)
    found_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
    np.testing.assert_allclose(found_TV[:, 1:], expected_TV, atol=1e-5)
    assert np.exp(found_TV[:, 0]).max() < 1e-30


@pytest.mark.parametrize("changes", FORMS.values(), ids=FORMS)
def test_targets_have_the_same_probabilities(tmp_path, changes):
    values, arrays = make(tmp_path / "model", **changes)
    report = import_run(request_of(tmp_path))
    assert report.run.tensors == len(arrays)
    loaded = load(tmp_path / "run")
    assert (loaded.hparams.beam_size, loaded.hparams.alpha) == (3, 0.6)
    assert_same_probabilities(loaded, values, arrays, [2, 3, 4, 14, 0], [3, 8, 6, 2, 0])


def test_positions_that_are_trained_have_embeddings_without_scale(tmp_path):
    positions = np.random.default_rng(1).normal(size=(9, 8)).astype(np.float32)
    values, arrays = make(tmp_path / "model", lambda _, arrays: arrays.update(Wpos=positions))
    import_run(request_of(tmp_path))
    assert_same_probabilities(load(tmp_path / "run"), values, arrays, [2, 3, 0], [3, 8, 6, 2, 0])


def test_an_output_layer_of_older_models_is_transposed(tmp_path):
    def edit(values, arrays):
        values["tied-embeddings-all"], values["tied-embeddings-src"] = False, True
        arrays["decoder_ff_logit_out_W"] = np.random.default_rng(2).normal(size=(8, SIZE)).astype(np.float32)

    values, arrays = make(tmp_path / "model", edit)
    import_run(request_of(tmp_path))
    assert_same_probabilities(load(tmp_path / "run"), values, arrays, [2, 0], [3, 5, 0])


@pytest.mark.parametrize(("line", "is_named"), [("", True), ("allow-unk: false", True), ("allow-unk: true", False)])
def test_marian_writes_no_unknown_word_unless_it_may(tmp_path, line, is_named):
    make(tmp_path / "model")
    with open(tmp_path / "model/decoder.yml", "a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    said = "decoder.yml has no allow-unk: true, so Marian writes no <unk>; the search here may write it"
    assert import_run(request_of(tmp_path)).run.warnings == (said,) * is_named


def test_words_are_read_whatever_yaml_makes_of_them(tmp_path):
    make(tmp_path / "model")
    import_run(request_of(tmp_path))
    encoder = load(tmp_path / "run").problem.encoders["inputs"]
    words = theirs.WORDS[2:]
    assert encoder.encode(" ".join(word for word in words if " " not in word)) == [
        number for number, word in enumerate(words, start=3) if " " not in word
    ]
    assert encoder.encode("never </s>") == [2, 2]
    assert encoder.decode(ours([2, 3, 1])) == "the dog <unk>"


def test_a_reader_of_ctranslate2_answers_the_same(tmp_path):
    """Its converter uses slightly different sinusoids and another epsilon, which are corrected here."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    converter = importlib.import_module("ctranslate2.converters.marian")
    make(tmp_path / "model")

    def positions(dim, num_positions=2048):
        angles = np.arange(num_positions)[:, None] * 10000.0 ** (-np.arange(dim // 2) / (dim // 2 - 1))
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)

    class Converter(converter.MarianConverter):
        def _load(self):
            spec = super()._load()
            spec.config.layer_norm_epsilon = 1e-6
            return spec

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(converter, "_make_sinusoidal_position_encodings", positions)
        vocabularies = [str(tmp_path / "model/vocab.yml")] * 2
        Converter(str(tmp_path / "model/model.npz"), vocabularies).convert(str(tmp_path / "converted"))
    translator = ctranslate2.Translator(str(tmp_path / "converted"), intra_threads=1)
    import_run(request_of(tmp_path))
    loaded = load(tmp_path / "run")
    sources = [["the", "dog", "runs"], ["a", "cat"], ["old", "house", "never"]]
    targets = [["a", "dog"], ["the", "ü", "sees"], ["cat"]]
    scored = translator.score_batch(sources, targets)
    for source, target, found in zip(sources, targets, scored, strict=True):
        encode = loaded.problem.encoders["inputs"].encode
        batch = {
            "inputs": np.array([[*encode(" ".join(source)), 1]], np.int32),
            "targets": np.array([[*encode(" ".join(target)), 1]], np.int32),
        }
        np.testing.assert_allclose(numpy(loaded.model.score_targets(batch).log_probs)[0], found.log_probs, atol=1e-5)


def setting(**changes):
    return lambda values, arrays: values.update({name.replace("_", "-"): value for name, value in changes.items()})


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (setting(type="s2s"), r"another network than the models here: type='s2s' \(known: 'transformer'\)"),
        (setting(transformer_decoder_autoreg="rnn"), r"transformer-decoder-autoreg='rnn' \(known: 'self-attention'\)"),
        (setting(transformer_postprocess="dah"), r"-postprocess and -postprocess-top are '', 'ah', '' without dropout"),
        (setting(transformer_preprocess="n"), r"are 'n', 'an', '' without dropout; it cannot be imported"),
        (
            setting(
                transformer_preprocess="n",
                transformer_postprocess="da",
                transformer_postprocess_top="n",
                version="v1.9.5 abc",
            ),
            r"it has norms before sub-layers and is of version v1.9.5 abc; before 1.11 Marian did not norm keys and va",
        ),
        (setting(transformer_postprocess_emb="n"), r"transformer-postprocess-emb='n'"),
        (setting(transformer_decoder_dim_ffn=5), r"transformer-decoder-dim-ffn=5 \(known: 0, 12\)"),
        (setting(lemma_dim_emb=4), r"lemma-dim-emb=4"),
        (setting(enc_depth="x"), r"its settings have enc-depth='x'; it must be a whole number"),
        (
            setting(tied_embeddings_all=False, tied_embeddings_src=True),
            r"it has no tensor decoder_ff_logit_out_Wt among",
        ),
        (lambda _, a: a.pop("encoder_l2_ffn_W1"), r"it has no tensor encoder_l2_ffn_W1 among its "),
        (lambda _, a: a.update(extra=np.ones(2, "f")), r"1 tensors that the model here has no place for: extra; this"),
        (lambda _, a: a.update(Wemb=np.ones((4, 8), "f")), r"vocab.yml has 19 words, the table 4 rows; give one mod"),
        (lambda _, a: a.update(Wemb=np.ones((SIZE, 8), np.int8)), r"Wemb is no float; give the model before quantiz"),
    ],
)
def test_another_network_is_refused(tmp_path, edit, said):
    make(tmp_path / "model", edit)
    with pytest.raises(UserError, match=said):
        import_run(request_of(tmp_path))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.npz", b"none", r"model.npz: it is damaged \("),
        ("model.npz", None, r"no model.npz there; copy all files of the model"),
        ("vocab.yml", b"the 4\n", r"vocab.yml: line 'the 4' is no word with an id; get it again"),
        ("vocab.yml", b"</s>: 0\n<unk>: 0\n", r"vocab.yml: its 2 words do not have an id each; get it again"),
        ("vocab.yml", b"a: 0\n<unk>: 1\n", r"vocab.yml has no </s>; get it again"),
        ("vocab.yml", None, r"no vocab.yml there; copy all files of the model"),
        ("decoder.yml", b"a line", r"decoder.yml: line 'a line' is no name with a value; get it again"),
        ("decoder.yml", b"vocabs:\n- a.yml\n", r"decoder.yml: vocabs are \['a.yml'\]; a translator has 2"),
        ("decoder.yml", None, r"of other.yml, vocab.yml it is not clear which are the vocabs; name 2 in a decoder.yml"),
    ],
)
def test_files_that_are_missing_or_damaged(tmp_path, name, content, said):
    make(tmp_path / "model")
    if content is None:
        (tmp_path / "model" / name).unlink()
    else:
        (tmp_path / "model" / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        import_run(request_of(tmp_path))
