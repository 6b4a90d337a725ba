"""M2M-100, NLLB and mBART in the format of transformers: the same ids and probabilities, and errors."""

import json

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.runs.loading import load
from tests.errors import refused
from tests.reference import language_models as theirs
from tests.reference import marian
from tests.reference.language_models import english, german
from tests.unit.formats.imports import Import, drop, log_probs, put, setting

TEXTS = ["the small dog runs", "", "  two  spaces ", "zebra \u4e2d", "a </s> <pad> b", ">>deu<< a dog", "en_XX de"]


def ours(foreign):
    """Ids here: padding, end of sequence and unknown first, `<s>` behind them, the others as they are."""
    return [{1: 0, 2: 1, 3: 2, 0: 3}.get(number, number) for number in foreign]


def model_of(folder, kind, language=None):
    """Returns the import of a model of a kind; a German one by default."""
    return Import(folder, "huggingface", target_language=german(kind) if language is None else language)


@pytest.fixture(scope="module", params=theirs.KINDS)
def imported(request, tmp_path_factory):
    """A model's kind, the import, its config, tensors and tokenizer, the loaded run and the report."""
    model = model_of(tmp_path_factory.mktemp(request.param), request.param)
    written = theirs.write_model(model.model, request.param)
    return request.param, model, *written, *model()


def test_inputs_and_targets_have_the_same_ids(imported):
    kind, _, _, _, tokenizer, loaded, _ = imported
    translator = loaded.with_languages().translator()
    texts = [*TEXTS, *theirs.CORPUS]
    rows = translator.input_rows(translator.encode(texts))
    assert rows == [ours(tokenizer.source(text, english(kind))) for text in texts]
    begun = [] if kind == "mbart" else tokenizer.start(german(kind))[1:]
    for ids, text in zip(translator.encode_targets(texts), texts, strict=True):
        assert [*ids, 1] == ours([*begun, *tokenizer.target(text)])
        assert translator.problem.decode_target(ids) == translator.problem.decode_target(ours(tokenizer.text(text)))
    assert translator.problem.decode_target(translator.encode_targets(theirs.CORPUS)[0]) == theirs.CORPUS[0]


def test_targets_have_the_same_probabilities_in_any_direction(imported):
    kind, _, values, tensors, tokenizer, loaded, _ = imported
    source, target = "ein alter Hund schl\u00e4ft", "a cat sees"
    read, written = german(kind), english(kind)
    if kind == "mbart":  # whose decoder was imported for one language
        read, written = written, read
    start = tokenizer.start(written)
    network = theirs.Network(kind, values, tensors)
    inputs, outputs = tokenizer.source(source, read), [*start[1:], *tokenizer.target(target)]
    expected_TV = network.log_probs(inputs, [*start, *tokenizer.target(target)[:-1]])
    found_TV = log_probs(loaded, ours(inputs), ours(outputs))
    np.testing.assert_allclose(found_TV[:, ours(range(values["vocab_size"]))], expected_TV, atol=1e-5)
    (score,) = loaded.with_languages(read, written).translator().score([(source, target)])
    assert score == pytest.approx(expected_TV[range(len(outputs)), outputs].sum(), abs=1e-4)


@pytest.mark.parametrize("imported", ["nllb", "mbart"], indirect=True)
def test_greedy_outputs_are_the_same_and_begin_with_the_language_and_with_what_is_given(imported):
    """mBART's decoder reads the language as its first id; that of the other kinds writes it."""
    kind, model, values, tensors, tokenizer, _, _ = imported
    source, start = tokenizer.source(TEXTS[0], english(kind)), tokenizer.start(german(kind))
    network, begun, wanted = theirs.Network(kind, values, tensors), start[1:], []
    while len(wanted) < len(source) + 3 - len(begun) and wanted[-1:] != [2]:
        log_probs_V = network.log_probs(source, [*start, *wanted])[-1]
        log_probs_V[1] = -np.inf
        wanted.append(int(log_probs_V.argmax()))
    translator = load(model.run, decode_overrides="beam_size=1").translator()
    ((best,),) = translator.translate([TEXTS[0]], extra_length=3)
    assert list(best.ids) == ours([*begun, *wanted])
    assert best.text == translator.problem.encoders["targets"].decode(ours(wanted))
    # Forced ids cost nothing; the others have the network's log-probabilities.
    log_probs_TV = network.log_probs(source, [*start, *wanted])
    cost = log_probs_TV[len(begun) : len(begun) + len(wanted)][range(len(wanted)), wanted].sum()
    assert best.log_prob == pytest.approx(cost, abs=1e-4)
    ((best,),) = translator.translate([TEXTS[0]], prefixes=["ein alter"], extra_length=6)
    begun = [*begun, *tokenizer.text("ein alter")]
    assert list(best.ids[: len(begun)]) == ours(begun)


def test_the_report_and_the_record_say_what_was_imported(imported):
    kind, model, _, tensors, tokenizer, _, report = imported
    assert report.lines() == [
        "problem text2text_files, model transformer_bart, update 0, without Adam's moments: training starts with empty "
        "ones",
        f"{len(tensors)} tensors became {len(tensors)} weights of {report.parameters:,} parameters",
        "ids: padding 1, end of sequence 2 and unknown 3 became 0, 1 and 2",
        f"3 languages; source {english(kind)}, target {german(kind)}",
        "not needed: none",
    ]
    record = RunDir.open(model.run).record
    assert record.problem_options == {"source_language": english(kind), "target_language": german(kind)}
    found = {name: value for section in record.hparams.values() for name, value in section.items()}
    start = tokenizer.codes[german(kind)] if kind == "mbart" else 1
    assert (found["target_start"], found["target_start_id"], found["beam_size"]) == ("id", start, 5)
    assert (found["embedding_norm"], found["positions"]) == (
        (True, "learned") if "mbart" in kind else (False, "sinusoidal")
    )


def test_long_inputs_are_cut_inside_the_text(imported):
    kind, model, *_, tokenizer, _, _ = imported
    translator = load(model.run, decode_overrides="max_input_length=6").translator()
    (row,) = translator.input_rows(translator.encode(["the small dog runs home"]))
    whole = ours(tokenizer.source("the small dog runs home", english(kind)))
    end = 2 if kind == "mbart" else 1
    assert row == [*whole[: 6 - end], *whole[-end:]]


def test_a_language_is_asked_for_by_name(imported):
    kind, *_, loaded, _ = imported
    with refused("--source_language=xx", *theirs.LANGUAGES[kind]):
        loaded.with_languages("xx")
    loaded.translator().encode(TEXTS)  # what was refused has changed nothing
    if kind == "mbart":
        with refused("--target_language=en_XX", "de_DE"):
            loaded.with_languages("", "en_XX")


def test_a_shared_table_may_have_the_name_of_a_copy(tmp_path):
    model = model_of(tmp_path, "nllb")

    def edit(_, tensors):
        tensors["lm_head.weight"] = tensors.pop("model.shared.weight")

    theirs.write_model(model.model, "nllb", edit)
    assert not model.read().unused


# === Languages and settings in files ===
def test_search_settings_become_hparams_or_are_named(tmp_path):
    model = model_of(tmp_path, "m2m")
    theirs.write_model(model.model, "m2m", no_repeat_ngram_size=3, min_length=5, repetition_penalty=1.3)
    run = model.read()
    assert (run.hparams.no_repeat_ngram_size, run.hparams.min_output_length) == (3, 4)
    assert run.warnings[-1].endswith("repetition_penalty=1.3")


@pytest.mark.parametrize("kind", theirs.KINDS)
@pytest.mark.parametrize("listed", ["map", "whole", "table", "entries"])
def test_codes_are_found_in_other_files(tmp_path, kind, listed):
    model = model_of(tmp_path, kind)
    *_, tokenizer = theirs.write_model(model.model, kind, listed=listed)
    encoder = model.read().problem.encoders["inputs"]
    assert encoder.languages.ids == tokenizer.codes
    assert encoder.piece(tokenizer.codes[german(kind)]) == theirs.piece_of(kind, german(kind))


@pytest.mark.parametrize("kind", theirs.KINDS)
def test_a_language_that_was_added_behind_the_mask_is_a_language(tmp_path, kind):
    model, added = model_of(tmp_path, kind), {"m2m": "__tyv__", "nllb": "tyv_Cyrl"}.get(kind, "ty_RU")
    *_, tokenizer = theirs.write_model(model.model, kind)
    codes = {theirs.piece_of(kind, language): number for language, number in tokenizer.codes.items()}
    model.replace("added_tokens.json", {**codes, "<mask>": tokenizer.mask, added: tokenizer.mask + 1})
    encoder = model.read().problem.encoders["inputs"]
    pieces = [encoder.piece(number) for number in range(tokenizer.mask, tokenizer.vocab_size)]
    assert pieces[1:] == [added, f"<row {tokenizer.mask + 2}>"]
    assert pieces[0] == ("<mask>" if kind != "m2m" else f"<row {tokenizer.mask}>")
    assert encoder.languages.ids[added.strip("_")] == tokenizer.mask + 1


@pytest.mark.parametrize("kind", theirs.KINDS)
@pytest.mark.parametrize("name", ["added_tokens.json", "special_tokens_map.json", "tokenizer.json"])
def test_tokens_that_were_added_are_named(tmp_path, kind, name):
    model = model_of(tmp_path, kind)
    *_, tokenizer = theirs.write_model(model.model, kind)
    tokens = {"<hl>": tokenizer.mask + 1}
    listed = [{"id": number, "content": token} for token, number in tokens.items()]
    contents = {"added_tokens.json": tokens, "tokenizer.json": {"added_tokens": listed}}
    model.replace(name, contents.get(name, {"additional_special_tokens": list(tokens)}))
    model.is_refused("'<hl>'", name)


@pytest.mark.parametrize(("named", "languages"), [("m2m100", ["af", "am"]), ("wmt21", ["en", "ha"])])
def test_m2m_knows_its_languages_where_no_file_lists_them(tmp_path, named, languages):
    def edit(values, tensors):
        values["vocab_size"] += 100
        table = tensors["model.shared.weight"]
        tensors["model.shared.weight"] = np.concatenate([table, np.ones((100, table.shape[1]), np.float32)])

    model = model_of(tmp_path, "m2m", "en")
    *_, tokenizer = theirs.write_model(model.model, "m2m", edit)
    model.replace("tokenizer_config.json", {"tokenizer_class": "M2M100Tokenizer", "language_codes": named})
    codes = model.read(source_language="de").problem.encoders["inputs"].languages.ids
    assert list(codes)[:2] == languages
    assert codes[languages[1]] == codes[languages[0]] + 1 == len(tokenizer.table) + 1
    assert len(codes) == {"m2m100": 100, "wmt21": 8}[named]


def test_nllb_in_its_legacy_form_has_the_language_behind_the_end_and_asks_for_languages_that_nobody_names(tmp_path):
    model = model_of(tmp_path, "nllb", "")
    theirs.write_model(model.model, "nllb")
    settings = json.loads((model.model / "tokenizer_config.json").read_text())
    model.replace("tokenizer_config.json", settings | {"legacy_behaviour": True})
    loaded, _ = model()
    with refused("target"):
        loaded.translator().encode(["a dog"])
    translator = loaded.with_languages("", "deu_Latn").translator()
    tokenizer = theirs.Tokenizer("nllb", model.model, legacy=True)
    rows = [ours(tokenizer.source(text, "eng_Latn")) for text in TEXTS]
    assert translator.input_rows(translator.encode(TEXTS)) == rows
    assert translator.encode_targets(["a dog"])[0][0] == tokenizer.codes["deu_Latn"]


def test_mbart_needs_the_language_that_its_decoder_begins_with(tmp_path):
    model = model_of(tmp_path, "mbart", "")
    theirs.write_model(model.model, "mbart", decoder_start_token_id=None)
    model.is_refused("--target_language", "de_DE")
    *_, tokenizer = theirs.write_model(model.model, "mbart")
    assert model.read(target_language="ro_RO").hparams.target_start_id == tokenizer.codes["ro_RO"]


def test_models_without_codes_take_no_languages(tmp_path):
    model = model_of(tmp_path, "nllb", "de")
    marian.write_model(model.model)
    model.is_refused("--target_language", "model_type='marian'")


# === Errors ===
@pytest.mark.parametrize(
    ("kind", "edit", "named"),
    [
        ("m2m", drop("model.encoder.layer_norm.bias"), ["encoder"]),
        ("m2m", put("model.decoder.extra", [1]), [1, "model.decoder.extra"]),
        ("mbart", drop("model.decoder.layernorm_embedding.weight"), ["model.decoder.layernorm_embedding.weig"]),
        ("nllb", put("lm_head.weight", [[1]]), ["lm_head.weight", "model.shared.weight"]),
        ("nllb", setting(model_type="nllb-moe"), ["model_type='nllb-moe'", "marian", "t5"]),
        ("nllb", setting(activation_function="tanh"), ["activation_function='tanh'", "'swish'"]),
        ("mbart50", setting(scale_embedding=False), ["scale_embedding=False"]),
        ("m2m", setting(scale_embedding=None), ["scale_embedding=None", "bool"]),
        ("m2m", setting(tie_word_embeddings=False), ["tie_word_embeddings=False"]),
        ("nllb", setting(decoder_start_token_id=0), ["decoder_start_token_id=0", "eos_token_id=2"]),
        ("nllb", setting(vocab_size=5), ["vocab_size=5", "pad_token_id=1", "eos_token_id=2"]),
        ("nllb", setting(pad_token_id=2), ["pad_token_id=2", "eos_token_id=2", "<pad>", "</s>"]),
        ("mbart", setting(max_position_embeddings=9), ["positions"]),
    ],
)
def test_another_network_is_refused(tmp_path, kind, edit, named):
    model = model_of(tmp_path, kind)
    theirs.write_model(model.model, kind, edit)
    model.is_refused(*named)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("sentencepiece.bpe.model", None, ["sentencepiece.bpe.model"]),
        ("sentencepiece.bpe.model", b"none", [4]),
        ("tokenizer_config.json", {}, ["tokenizer_config.json"]),
        (
            "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_special_tokens": ["deu_Latn"]},
            ["tokenizer_class='T5Tokenizer'", "M2M100Tokenizer"],
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": {"4": {"content": "deu_Latn"}}}, ["deu_Latn", 4]),
    ],
)  # fmt: skip
def test_files_that_are_missing_or_of_another_tokenizer(tmp_path, name, content, named):
    model = model_of(tmp_path, "nllb")
    theirs.write_model(model.model, "nllb")
    model.replace(name, content)
    model.is_refused(*named)


@pytest.mark.parametrize(
    ("kind", "name", "piece", "other", "named"),
    [
        ("nllb", "sentencepiece.bpe.model", b"<s>", b"<X>", ["sentencepiece.bpe.model", "['<unk>',", "'<X>',"]),
        ("m2m", "vocab.json", b"<unk>", b"<X>", ["<unk>;"]),
    ],
)
def test_a_special_piece_is_missing(tmp_path, kind, name, piece, other, named):
    model = model_of(tmp_path, kind)
    theirs.write_model(model.model, kind)
    content = (model.model / name).read_bytes()
    assert piece in content
    model.replace(name, content.replace(piece, other))
    model.is_refused(*named)
