"""Models of CTranslate2: the same probabilities and outputs as in CTranslate2 itself, and errors."""

import json

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.importing.ctranslate2.model_file import parse_model
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.inference.ctranslate2.conversion import write_model
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.inference.engine import DecodeRequest
from t2t.inference.translator import Translator
from t2t.layers.positions import sinusoids
from t2t.runs.loading import load
from t2t.text.vocabulary_files import save_encoders
from tests.builders import numpy
from tests.letters import letters, translator_of
from tests.reference import language_models

theirs = pytest.importorskip("tests.reference.ctranslate2", exc_type=ImportError)

TABLE = sinusoids(theirs.POSITIONS, theirs.WIDTH)
SOURCES = ["the old dog runs", "a cat sees the dog", "cat"]
TARGET = "der alt Hund läuft"


def imported(folder, **request):
    """Imports the model in `folder / "model"` and returns the run and the report."""
    request = ImportRequest(format="ctranslate2", model_dir=folder / "model", output_dir=folder / "run", **request)
    report = import_run(request)
    return load(request.output_dir, decode_overrides="beam_size=1"), report


def check_probabilities(folder, loaded, ending=(), atol=1e-5):
    """Compares log-probabilities of a target; `ending` are the tokens that end inputs in CTranslate2."""
    encoders = loaded.problem.encoders
    for text in SOURCES:
        batch = {
            "inputs": np.array([[*encoders["inputs"].encode(text), 1, 0]], np.int32),
            "targets": np.array([[*encoders["targets"].encode(TARGET), 1]], np.int32),
        }
        found = numpy(loaded.model.score_targets(batch).log_probs)[0]
        expected = theirs.log_probs(folder / "model", [*text.split(), *ending], TARGET.split())
        np.testing.assert_allclose(found, expected, atol=atol)


def check_greedy(folder, loaded, hidden):
    """Compares greedy outputs, in which CTranslate2 never writes the tokens `hidden`."""
    encoder = loaded.problem.encoders["targets"]
    for text, (best,) in zip(SOURCES, loaded.translator().translate(SOURCES, extra_length=6), strict=True):
        written = [encoder.piece(token) for token in best.ids if token != 1]
        assert written == theirs.greedy(folder / "model", text.split(), len(text.split()) + 1 + 6, hidden)


NETWORKS = {
    "OpenNMT": {"encodings": TABLE},
    "OpenNMT with one table for the targets": {"encodings": TABLE, "tied": True},
    "norms behind and other sizes": {
        "encodings": sinusoids(theirs.POSITIONS, theirs.WIDTH, "split"), "pre_norm": False, "ffn_glu": True,
        "activation": theirs.activation("SWISH"), "config": {"layer_norm_epsilon": 0.01, "add_source_eos": True},
    },
    "learned positions": {
        "encodings": np.random.default_rng(1).normal(0, 0.5, TABLE.shape).astype(np.float32),
        "activation": theirs.activation("GELU"),
    },
    "relative positions and embeddings without scale": {
        "relative_position": True, "scale": False, "activation": theirs.activation("GELUTanh"),
    },
    "rotations, shared keys and RMS norms": {
        "rotary_dim": 0, "rms_norm": True, "kv_heads": 1, "activation": theirs.activation("GELUSigmoid"),
    },
}  # fmt: skip


@pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS)
def test_the_network_is_the_same(tmp_path, settings):
    theirs.write(theirs.random_spec(**settings), tmp_path / "model")
    loaded, report = imported(tmp_path)
    assert not loaded.problem.spec().shared_vocabulary
    check_probabilities(tmp_path, loaded)
    assert "ids of inputs: padding 3, end of sequence 2 and unknown 0 became 0, 1 and 2" in report.lines()
    assert "ids of targets: padding 1, end of sequence 2 and unknown 3 became 0, 1 and 2" in report.lines()


def test_a_decoder_that_begins_with_zeros_and_a_vocabulary_without_padding(tmp_path):
    """Like a converted model of Marian: one vocabulary, from which the converter has removed padding."""
    tokens = ["</s>", "<unk>", *["the", "old", "dog", "runs", "a", "cat", "sees", "der", "alt", "Hund", "läuft"]]
    config = {"decoder_start_token": "</s>", "add_source_eos": True}
    table = sinusoids(theirs.POSITIONS, theirs.WIDTH, "halves")
    spec = theirs.random_spec(tokens, tokens, tied=True, encodings=table, config=config, pre_norm=False)
    spec.decoder.start_from_zero_embedding = True
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight
    theirs.write(spec, tmp_path / "model")
    loaded, report = imported(tmp_path)
    assert loaded.problem.spec().shared_vocabulary
    assert report.run.weights.keys().isdisjoint({"source_embedding/table", "output_embedding/table"})
    check_probabilities(tmp_path, loaded)
    check_greedy(tmp_path, loaded, hidden=None)
    logits = numpy(loaded.model({"inputs": np.array([[3, 1]]), "targets": np.array([[4, 1]])}))[0]
    assert (logits[:, 0] < logits[:, 1:].min(axis=1) - 50).all(), "padding has no probability"


@pytest.mark.parametrize("start", ["</s>", "<unk>"])
def test_a_decoder_that_begins_with_a_token_that_outputs_have(tmp_path, start):
    theirs.write(theirs.random_spec(encodings=TABLE, config={"decoder_start_token": start}), tmp_path / "model")
    loaded, report = imported(tmp_path)
    assert loaded.hparams.target_start == "id"
    assert loaded.hparams.target_start_id == {"</s>": 1, "<unk>": 2}[start]
    assert "ids of targets: padding 0, end of sequence 2 and unknown 3 became 0, 1 and 2" in report.lines()
    check_probabilities(tmp_path, loaded)
    check_greedy(tmp_path, loaded, hidden="<blank>")


@pytest.mark.parametrize("first", [None, 1, 2], ids=["computed", "from 1", "from 2"])
def test_positions_that_do_not_begin_with_0(tmp_path, first):
    table = None if first is None else sinusoids(theirs.POSITIONS, theirs.WIDTH, "split", first)
    theirs.write(theirs.random_spec(encodings=table), tmp_path / "model")
    loaded, report = imported(tmp_path)
    assert report.run.model == "transformer_bart"
    assert loaded.hparams.first_position == (first or 1)
    check_probabilities(tmp_path, loaded)


@pytest.mark.parametrize("learned", [False, True])
def test_norms_of_embeddings(tmp_path, learned):
    table = np.random.default_rng(1).normal(0, 0.5, TABLE.shape).astype(np.float32) if learned else TABLE
    spec, rng = theirs.random_spec(encodings=table, layernorm_embedding=True), np.random.default_rng(2)
    for stack in (spec.encoder, spec.decoder):
        stack.layernorm_embedding.gamma, stack.layernorm_embedding.beta = rng.normal(1, 0.3, (2, 8)).astype(np.float32)
    theirs.write(spec, tmp_path / "model")
    loaded, report = imported(tmp_path)
    assert report.run.model == "transformer_bart"
    assert not loaded.hparams.first_position
    check_probabilities(tmp_path, loaded)


def test_inputs_that_the_tokenizers_of_transformers_end(tmp_path):
    source = [token for token in theirs.SOURCE if token != "<blank>"]
    theirs.write(theirs.random_spec(source=source, encodings=TABLE), tmp_path / "model")
    loaded, report = imported(tmp_path)
    check_probabilities(tmp_path, loaded, ending=["</s>"])
    assert "inputs end with </s>, as the tokenizers of transformers write them" in report.lines()


def test_outputs_and_exports_are_the_same_though_inputs_have_no_end(tmp_path):
    theirs.write(theirs.random_spec(encodings=TABLE), tmp_path / "model")
    loaded, _ = imported(tmp_path)
    check_greedy(tmp_path, loaded, hidden="<s>")
    (tmp_path / "again").mkdir()
    tokens = TokenLists.of_encoders(loaded.problem.encoders, input_end=False)
    write_model(tmp_path / "again", loaded.model, tokens, 2 * theirs.POSITIONS)
    engine = CTranslate2Engine(tmp_path / "again", tokens, 2 * theirs.POSITIONS)
    ours, fast = loaded.translator(), Translator(loaded.problem, loaded.model, loaded.hparams, engine=engine)
    assert [best.ids for (best,) in fast.translate(SOURCES)] == [best.ids for (best,) in ours.translate(SOURCES)]
    settings, hparams = ours.settings(1)

    def asked(rows):
        return DecodeRequest(rows=rows, seeds=np.arange(len(rows)), settings=settings, hparams=hparams)

    assert "an input is empty" in engine.refusal(asked([[5, 1], [1]]))
    assert "an input is empty" in engine.score_refusal([[1]], [[5, 1]])
    assert not engine.refusal(asked([[5, 1]]))


def test_half_precision_is_widened(tmp_path):
    theirs.write(theirs.random_spec(encodings=TABLE), tmp_path / "model", "float16")
    check_probabilities(tmp_path, imported(tmp_path)[0], atol=1e-3)  # exact sinusoids here, rounded ones there


@pytest.mark.parametrize(
    ("positions", "norm_position"),
    [
        ("relative_bias", "pre"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (
            ("sinusoidal", "post"), ("learned", "post"), ("relative", "pre"), ("rotary", "post"), ("none", "pre"),
        )),
    ],
)  # fmt: skip
def test_an_export_comes_back(tmp_path, positions, norm_position):
    translator = translator_of(letters(), positions=positions, norm_position=norm_position, attention_bias=True)
    model, encoders = translator.model, translator.problem.encoders
    (tmp_path / "model").mkdir()
    write_model(tmp_path / "model", model, TokenLists.of_encoders(encoders), 32)
    save_encoders(tmp_path / "model", encoders)
    loaded, _ = imported(tmp_path)
    assert loaded.problem.encoders["inputs"].fingerprint == encoders["inputs"].fingerprint
    for before, after in zip(model.variables, loaded.model.variables, strict=True):
        assert before.path.partition("/")[2] == after.path.partition("/")[2]
        np.testing.assert_array_equal(numpy(before), numpy(after))


def write_nllb(folder, **tokenizer):
    """Imports an NLLB of transformers and writes it to `folder / "model"`, as t2t exports it; returns the first run."""
    original = ImportRequest(
        format="huggingface",
        model_dir=folder / "original",
        output_dir=folder / "first",
        source_language="eng_Latn",
        target_language="deu_Latn",
    )
    language_models.write_model(original.model_dir, "nllb")
    path = original.model_dir / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | tokenizer))
    import_run(original)
    loaded = load(original.output_dir)
    (folder / "model").mkdir()
    encoders = loaded.problem.encoders
    write_model(folder / "model", loaded.model, TokenLists.of_encoders(encoders), 32)
    save_encoders(folder / "model", encoders)
    return loaded


@pytest.mark.parametrize("legacy", [False, True], ids=["code, text, end", "text, end, code"])
def test_an_export_with_language_codes_comes_back(tmp_path, legacy):
    before = write_nllb(tmp_path, legacy_behaviour=legacy)
    after = imported(tmp_path)[0].with_languages("eng_Latn", "deu_Latn")
    pairs = [("the small dog runs", "ein alter Hund"), ("a cat sees", "der kleine Hund")]
    np.testing.assert_allclose(after.translator().score(pairs), before.translator().score(pairs), atol=1e-5)


def test_a_vocabulary_with_language_codes_needs_the_original(tmp_path):
    """Without the vocabularies of an export, as CTranslate2's converter writes a model of transformers."""
    write_nllb(tmp_path)
    for path in (tmp_path / "model").glob("vocab.*"):
        path.unlink()
    said = r"its tokens include language codes, such as 'ace_Arab', .*; import the original with --from=huggingface"
    with pytest.raises(UserError, match=said):
        imported(tmp_path, sentencepiece_models=(tmp_path / "original/sentencepiece.bpe.model",))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("start", "words"), [("</s>", ["is_Not", "a", "my_Var"]), ("<s>", ["de_DE", "en_XX"])], ids=["apart", "OpenNMT"]
)
def test_words_that_look_like_language_codes(tmp_path, start, words):
    config = {"decoder_start_token": start}
    spec = theirs.random_spec(target=[*theirs.TARGET, *words], encodings=TABLE, config=config)
    theirs.write(spec, tmp_path / "model")
    check_probabilities(tmp_path, imported(tmp_path)[0])


def setting(**changes):
    def edit(folder):
        values = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps(values))

    return edit


def without(name):
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (setting(add_source_bos=True), r"its inputs begin with a token \(add_source_bos\); those here do not"),
        (setting(decoder_start_token="<go>"), r"its decoder begins with '<go>', which is none of its 12 target token"),
        (setting(unk_token="unk"), r"'unk', for unknown words, is none of its 1. tokens; get it again"),
        (setting(quantization_type=1), r"config.json has quantization_type=1, which is not known here"),
        (without("target_vocabulary.json"), r"no shared_vocabulary.json there, nor source_vocabulary.json and target"),
        (without("model.bin"), r"--model_dir=.*: no model.bin there; copy all files of the model"),
        (lambda f: (f / "source_vocabulary.json").write_text('["a"]'), r"'<unk>', for unknown words, is none of its 1"),
        (
            lambda f: (f / "source_vocabulary.json").write_text('["<unk>", "</s>", "<blank>"]'),
            r"its table of inputs has 11 rows, its vocabulary 3 tokens; get all files again",
        ),
    ],
)
def test_files_of_another_model(tmp_path, edit, said):
    theirs.write(theirs.random_spec(encodings=TABLE), tmp_path / "model")
    edit(tmp_path / "model")
    with pytest.raises(UserError, match=said):
        imported(tmp_path)
    assert not (tmp_path / "run").exists()


def other_positions(spec):
    spec.encoder.position_encodings.encodings = TABLE + 1


@pytest.mark.parametrize(
    ("settings", "edit", "said"),
    [
        ({"encodings": TABLE}, other_positions, r"encoder and decoder have different tables of positions"),
        ({"encodings": TABLE, "activation": 6}, None, r"model.bin has activation=6 and alibi=0; known here are t"),
        ({"rotary_dim": 2}, None, r"model.bin has \{'rotary_dim': 2, .*; the models here rotate with \{"),
        ({"encodings": TABLE, "sliding_window": 9}, None, r"model.bin has .*sliding_window=9.*, which the models here"),
    ],
)  # fmt: skip
def test_another_network_is_refused(tmp_path, settings, edit, said):
    spec = theirs.random_spec(**settings)
    if edit:
        edit(spec)
    theirs.write(spec, tmp_path / "model")
    with pytest.raises(UserError, match=said):
        imported(tmp_path)


@pytest.mark.parametrize("quantization", ["int8", "int16"])
def test_weights_that_are_rounded_to_integers_are_refused(tmp_path, quantization):
    theirs.write(theirs.random_spec(encodings=TABLE), tmp_path / "model", quantization)
    with pytest.raises(UserError, match=rf"its weights are rounded to {quantization}; convert the model again without"):
        imported(tmp_path)


def test_every_cut_of_the_file_is_noticed(tmp_path):
    theirs.write(theirs.random_spec(encodings=TABLE), tmp_path / "model")
    content = (tmp_path / "model/model.bin").read_bytes()
    assert parse_model(content).specification == "TransformerSpec"
    for length in range(0, len(content), 53):
        with pytest.raises(ValueError):
            parse_model(content[:length])
    with pytest.raises(ValueError, match="4 bytes follow its end"):
        parse_model(content + bytes(4))
    with pytest.raises(ValueError, match="it is of version 9 of the format; versions 4 to 6 are read"):
        parse_model(b"\x09" + content[1:])
