"""Models of CTranslate2: the same probabilities and outputs as in CTranslate2 itself, and errors."""

import copy
import json

import numpy as np
import pytest

from t2t.formats.ctranslate2.model_file import parse_model
from t2t.formats.importer import alignment_hparams
from t2t.inference.attention import attention_maps
from t2t.inference.ctranslate2.conversion import TokenLists, write_model
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.inference.engine import DecodeRequest
from t2t.inference.translator import Translator
from t2t.layers.sinusoids import sinusoids
from t2t.text.vocabulary_files import save_encoders
from tests.builders import numpy, tiny_hparams
from tests.errors import refused
from tests.letters import letters, translator_of
from tests.reference import language_models
from tests.unit.formats.imports import Import, check_scores

theirs = pytest.importorskip("tests.reference.ctranslate2", exc_type=ImportError)

TABLE = sinusoids(theirs.POSITIONS, theirs.WIDTH)
LEARNED = np.random.default_rng(1).normal(0, 0.5, TABLE.shape).astype(np.float32)
SOURCES = ["the old dog runs", "a cat sees the dog", "cat"]
TARGET = "der alt Hund läuft"


@pytest.fixture
def model(importing):
    return importing("ctranslate2")


def check_probabilities(model, loaded, ending=(), atol=1e-5):
    """Compares log-probabilities of a target; `ending` are the tokens that end inputs in CTranslate2."""
    expected = [theirs.log_probs(model.model, [*text.split(), *ending], TARGET.split()) for text in SOURCES]
    check_scores(loaded, [(text, TARGET) for text in SOURCES], expected, atol)


def check_greedy(model, loaded, hidden):
    """Compares greedy outputs, in which CTranslate2 never writes the tokens `hidden`."""
    encoder = loaded.problem.encoders["targets"]
    outputs = loaded.translate(SOURCES, extra_length=6, decode_method="greedy")
    for text, (best,) in zip(SOURCES, outputs, strict=True):
        written = [encoder.piece(token) for token in best.ids if token != 1]
        assert written == theirs.greedy(model.model, text.split(), len(text.split()) + 1 + 6, hidden)


def normed(**settings):
    """Returns a specification with random norms of embeddings."""
    spec, rng = theirs.random_spec(**settings, layernorm_embedding=True), np.random.default_rng(2)
    for stack in (spec.encoder, spec.decoder):
        stack.layernorm_embedding.gamma, stack.layernorm_embedding.beta = rng.normal(1, 0.3, (2, 8)).astype(np.float32)
    return spec


NETWORKS = {
    "OpenNMT": {"encodings": TABLE},
    "OpenNMT with one table for the targets": {"encodings": TABLE, "tied": True},
    "norms behind and other sizes": {
        "encodings": sinusoids(theirs.POSITIONS, theirs.WIDTH, "split"), "pre_norm": False, "ffn_glu": True,
        "activation": theirs.activation("SWISH"), "config": {"layer_norm_epsilon": 0.01, "add_source_eos": True},
    },
    "learned positions": {"encodings": LEARNED, "activation": theirs.activation("GELU")},
    "relative positions and embeddings without scale": {
        "relative_position": True, "scale": False, "activation": theirs.activation("GELUTanh"),
    },
    "rotations, shared keys and RMS norms": {
        "rotary_dim": 0, "rms_norm": True, "kv_heads": 1, "activation": theirs.activation("GELUSigmoid"),
    },
    "computed positions, a decoder of other sizes": {"first_position": 1, "decoder": (4, 20)},
    "shared keys, a decoder of other heads": {"encodings": TABLE, "kv_heads": 1, "decoder": (4, 12)},
    "positions from 1": {"encodings": sinusoids(theirs.POSITIONS, theirs.WIDTH, "split", 1), "first_position": 1},
    "positions from 2": {"encodings": sinusoids(theirs.POSITIONS, theirs.WIDTH, "split", 2), "first_position": 2},
    "norms of embeddings": {"encodings": TABLE, "layernorm_embedding": True},
    "norms of embeddings with learned positions": {"encodings": LEARNED, "layernorm_embedding": True},
}  # fmt: skip


@pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS)
def test_the_network_is_the_same(model, settings):
    settings = dict(settings)
    first, has_norms = settings.pop("first_position", 0), settings.pop("layernorm_embedding", False)
    theirs.write(normed(**settings) if has_norms else theirs.random_spec(**settings), model.model)
    loaded, read = model.build()
    assert (read.model, read.hparams.to_dict()["model"].get("first_position", 0)) == (
        ("transformer_bart", first) if first or has_norms else ("transformer", 0)
    )
    assert not loaded.problem.spec().shared_vocabulary
    check_probabilities(model, loaded)
    assert "ids of inputs: padding 3, end of sequence 2 and unknown 0 became 0, 1 and 2" in read.notes
    assert "ids of targets: padding 1, end of sequence 2 and unknown 3 became 0, 1 and 2" in read.notes


def test_a_decoder_that_begins_with_zeros_and_a_vocabulary_without_padding(model):
    """Like a converted model of Marian: one vocabulary, from which the converter has removed padding."""
    tokens = ["</s>", "<unk>", *["the", "old", "dog", "runs", "a", "cat", "sees", "der", "alt", "Hund", "läuft"]]
    config = {"decoder_start_token": "</s>", "add_source_eos": True}
    table = sinusoids(theirs.POSITIONS, theirs.WIDTH, "halves")
    spec = theirs.random_spec(tokens, tokens, tied=True, encodings=table, config=config, pre_norm=False)
    spec.decoder.start_from_zero_embedding = True
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight
    theirs.write(spec, model.model)
    loaded, read = model.build()
    assert loaded.problem.spec().shared_vocabulary
    assert read.weights.keys().isdisjoint({"source_embedding/table", "output_embedding/table"})
    check_probabilities(model, loaded)
    check_greedy(model, loaded, hidden=None)
    logits = numpy(loaded.model({"inputs": np.array([[3, 1]]), "targets": np.array([[4, 1]])}))[0]
    assert (logits[:, 0] < logits[:, 1:].min(axis=1) - 50).all(), "padding has no probability"


@pytest.mark.parametrize(("start", "words"), [("</s>", ["is_Not", "a", "my_Var"]), ("<s>", ["de_DE", "en_XX"])])
def test_words_that_look_like_language_codes(model, start, words):
    config = {"decoder_start_token": start}
    theirs.write(theirs.random_spec(target=[*theirs.TARGET, *words], encodings=TABLE, config=config), model.model)
    check_probabilities(model, model.build()[0])


@pytest.mark.parametrize(("start", "number"), [("</s>", 1), ("<unk>", 2)])
def test_a_decoder_that_begins_with_a_token_that_outputs_have(model, start, number):
    theirs.write(theirs.random_spec(encodings=TABLE, config={"decoder_start_token": start}), model.model)
    loaded, read = model.build()
    assert (loaded.hparams.target_start, loaded.hparams.target_start_id) == ("id", number)
    assert "ids of targets: padding 0, end of sequence 2 and unknown 3 became 0, 1 and 2" in read.notes
    check_probabilities(model, loaded)
    if start == "<unk>":
        check_greedy(model, loaded, hidden="<blank>")


def test_inputs_that_the_tokenizers_of_transformers_end(model):
    source = [token for token in theirs.SOURCE if token != "<blank>"]
    theirs.write(theirs.random_spec(source=source, encodings=TABLE), model.model)
    loaded, read = model.build()
    check_probabilities(model, loaded, ending=["</s>"])
    assert "inputs end with </s>, as the tokenizers of transformers write them" in read.notes


def test_outputs_and_exports_are_the_same_though_inputs_have_no_end(model):
    theirs.write(theirs.random_spec(encodings=TABLE), model.model)
    ours = model("decode_method=greedy")[0].translator()
    check_greedy(model, ours, hidden="<s>")
    (again := model.folder / "again").mkdir()
    tokens = TokenLists.of_encoders(ours.problem.encoders, input_end=False)
    write_model(again, ours.model, tokens, 2 * theirs.POSITIONS)
    engine = CTranslate2Engine(again, tokens, 2 * theirs.POSITIONS)
    fast = Translator(ours.problem, ours.model, ours.hparams, engine=engine)
    assert [best.ids for (best,) in fast.translate(SOURCES)] == [best.ids for (best,) in ours.translate(SOURCES)]
    settings, hparams = ours.settings(1)
    refusals = [
        engine.refusal(
            DecodeRequest(
                rows=rows,
                seeds=(numbers := np.arange(len(rows))),
                sentences=numbers,
                settings=settings,
                hparams=hparams,
            )
        )
        for rows in ([[5, 1], [1]], [[5, 1]])
    ]
    assert list(map(bool, [*refusals, engine.score_refusal([[1]], [[5, 1]])])) == [True, False, True], "an empty input"


@pytest.mark.parametrize(
    ("layer", "heads", "expected"), [(None, None, (2, 1)), (0, 1, (1, 1)), (-2, 0, (1, 0)), (1, 2, (2, 0))]
)
def test_alignments_are_those_of_the_same_heads(model, layer, heads, expected):
    spec = theirs.random_spec(encodings=TABLE)
    if layer is not None:
        spec.decoder.alignment_layer, spec.decoder.alignment_heads = np.int16([layer, heads])
    theirs.write(spec, model.model)
    loaded, _ = model.build()
    assert (loaded.hparams.alignment_layer, loaded.hparams.alignment_head) == expected
    tokens, wanted_TS = theirs.attention(model.model, SOURCES[0].split(), 6)
    (row,), encoders = loaded.input_rows(loaded.encode(SOURCES[:1])), loaded.problem.encoders
    maps = attention_maps(loaded.model, row, encoders["targets"].encode(" ".join(tokens)), encoders)
    weights_HTS = maps["encoder_decoder"].weights[expected[0] - 1]
    found_TS = weights_HTS[0] if expected[1] else weights_HTS.mean(axis=0)
    T, S = wanted_TS.shape
    np.testing.assert_allclose(found_TS[:T, :S], wanted_TS, atol=1e-5)


@pytest.mark.parametrize(("layer", "heads", "number"), [(5, 1, 5), (-1, 3, 3)])
def test_heads_of_alignments_that_are_left_out_are_named(layer, heads, number):
    found, (warning,) = alignment_hparams(layer, heads, tiny_hparams(num_heads=4))
    assert found == ({} if number == 5 else {"alignment_layer": 2, "alignment_head": 0})
    assert f" {number}" in warning


def test_half_precision_is_widened(model):
    theirs.write(theirs.random_spec(encodings=TABLE), model.model, "float16")
    check_probabilities(model, model.build()[0], atol=1e-3)  # exact sinusoids here, rounded ones there


def write_export(folder, of):
    """Writes a model and its vocabularies as t2t exports them."""
    folder.mkdir()
    write_model(folder, of.model, TokenLists.of_encoders(of.problem.encoders), 32)
    save_encoders(folder, of.problem.encoders)


@pytest.mark.parametrize(
    ("positions", "norm_position"),
    [
        ("relative_bias", "pre"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (
            ("sinusoidal", "post"), ("learned", "post"), ("relative", "pre"), ("rotary", "post"), ("none", "pre"),
        )),
    ],
)  # fmt: skip
def test_an_export_comes_back(model, positions, norm_position):
    ours = translator_of(letters(), positions=positions, norm_position=norm_position, attention_bias=True)
    write_export(model.model, ours)
    loaded, _ = model.build()
    assert loaded.problem.encoders["inputs"].fingerprint == ours.problem.encoders["inputs"].fingerprint
    assert_same_weights(ours.model, loaded.model)


def assert_same_weights(one, other):
    for before, after in zip(one.variables, other.variables, strict=True):
        assert before.path.partition("/")[2] == after.path.partition("/")[2]
        np.testing.assert_array_equal(numpy(before), numpy(after))


@pytest.mark.parametrize("legacy", [False, True], ids=["code, text, end", "text, end, code"])
def test_an_export_with_language_codes_comes_back_or_needs_the_original(model, legacy):
    """It needs the original without the vocabularies of an export, as CTranslate2's converter writes such a model."""
    (original := Import(model.folder / "first", "huggingface")).folder.mkdir()
    language_models.write_model(original.model, "nllb")
    values = json.loads((original.model / "tokenizer_config.json").read_text()) | {"legacy_behaviour": legacy}
    original.replace("tokenizer_config.json", values)
    before, _ = original(source_language="eng_Latn", target_language="deu_Latn")
    write_export(model.model, before)
    after = model()[0].with_languages("eng_Latn", "deu_Latn")
    found, expected = (loaded.translator() for loaded in (after, before))
    texts = ["the small dog runs", "a cat sees"]
    assert found.input_rows(found.encode(texts)) == expected.input_rows(expected.encode(texts))
    assert found.encode_targets(["ein alter Hund"]) == expected.encode_targets(["ein alter Hund"])
    assert_same_weights(before.model, after.model)
    for path in model.model.glob("vocab.*"):
        path.unlink()
    with refused("ace_Arab", "--from=huggingface"):
        model.report(sentencepiece_models=(original.model / "sentencepiece.bpe.model",))


# === Errors ===
def without(name):
    return lambda model: model.replace(name)


def instead(name, of, content):
    """Writes a file in place of another one."""
    return lambda model: (model.replace(of), model.replace(name, content))


def config(**changes):
    return lambda model: model.replace(
        "config.json", json.dumps(json.loads((model.model / "config.json").read_text()) | changes).encode()
    )


def sources(*tokens):
    return lambda model: model.replace("source_vocabulary.json", tokens)


WHISPER = b"\x06\0\0\0\x0c\0WhisperSpec\0" + bytes(12)
"""A file of version 6 with the name of another network, revision 0, no variables and no aliases."""


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (config(add_source_bos=True), ["add_source_bos"]),
        (config(decoder_start_token="<go>"), ["'<go>'", 12]),
        (config(unk_token="unk"), ["'unk'"]),
        (config(eos_token="<end>"), ["'<end>'", 12]),
        (config(quantization_type=1), ["config.json", "quantization_type=1"]),
        (without("target_vocabulary.json"), ["shared_vocabulary.json", "target_vocabulary.json"]),
        (without("model.bin"), ["--model_dir=", "model.bin"]),
        (instead("model.bin", "model.bin", b"none"), ["model.bin", int.from_bytes(b"none", "little")]),
        (instead("model.bin", "model.bin", b"\3\0\0\0" + WHISPER[4:]), ["model.bin", 3, 4, 6]),
        (instead("model.bin", "model.bin", WHISPER), ["model.bin", "WhisperSpec", "TransformerSpec"]),
        (instead("source_vocabulary.txt", "source_vocabulary.json", b"\xff\n"), ["source_vocabulary.txt", "UTF-8"]),
        (sources("<unk>", 7), ["source_vocabulary.json"]),
        (sources("a"), ["'<unk>'", 1]),
        (sources("<unk>", "</s>", "<blank>"), [11, 3]),
    ],
)
def test_files_of_another_model(model, edit, named):
    theirs.write(theirs.random_spec(encodings=TABLE), model.model)
    edit(model)
    model.is_refused(*named)


def other_positions(spec):
    spec.encoder.position_encodings.encodings = TABLE + 1


def second_positions(spec):
    """Adds a table of positions, which the converter leaves out of a decoder that rotates."""
    vars(spec.decoder)["position_encodings"] = copy.copy(spec.encoder.position_encodings)
    spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = TABLE


def other_heads(spec):
    for layer in spec.encoder.layer:
        vars(layer.self_attention)["head_dim"] = np.int32(3)


def other_activation(spec):
    spec.encoder.activation, spec.decoder.activation = np.int8(1), np.int8(0)


def fewer_rows(spec):
    linear = spec.encoder.layer[0].self_attention.linear[0]
    linear.weight, linear.bias = linear.weight[:20], linear.bias[:20]


@pytest.mark.parametrize(
    ("settings", "edit", "quantization", "named"),
    [
        ({"encodings": TABLE}, other_positions, None, ["encoder", "decoder", "positions"]),
        ({"encodings": TABLE}, other_heads, None, ["model.bin", 6, 8]),
        ({"encodings": TABLE}, other_activation, None, ["model.bin", "encoder/activation=1", "decoder/activation=0"]),
        ({"encodings": TABLE}, fewer_rows, None, ["encoder/layer_0/self_attention/linear_0/weight", 20, 24]),
        ({"rotary_dim": 0}, second_positions, None, ["model.bin", "positions=rotary"]),
        ({"encodings": TABLE, "activation": 6}, None, None, ["model.bin", "activation=6", "alibi=0"]),
        ({"rotary_dim": 2}, None, None, ["model.bin", "'rotary_dim':"]),
        ({"encodings": TABLE, "sliding_window": 9}, None, None, ["model.bin", "sliding_window=9"]),
        ({"encodings": TABLE}, None, "int8", ["int8"]),
        ({"encodings": TABLE}, None, "int16", ["int16"]),
    ],
)  # fmt: skip
def test_another_network_is_refused(model, settings, edit, quantization, named):
    spec = theirs.random_spec(**settings)
    if edit:
        edit(spec)
    theirs.write(spec, model.model, quantization)
    model.is_refused(*named)


def test_every_cut_of_the_file_is_noticed(model):
    theirs.write(theirs.random_spec(encodings=TABLE), model.model)
    content = (model.model / "model.bin").read_bytes()
    assert parse_model(content).specification == "TransformerSpec"
    for length in range(0, len(content), 53):
        with pytest.raises(ValueError):
            parse_model(content[:length])
    for damaged, named in ((content + bytes(4), 4), (b"\x09" + content[1:], 9)):
        with refused(named, by=ValueError):
            parse_model(damaged)
