"""M2M-100, NLLB and mBART in the format of transformers: the same ids and probabilities, and errors.

Legend: T target length, V vocabulary.
"""

import json

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.inference.beam_trace import beam_tree
from t2t.inference.partial_outputs import partial_outputs
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference import language_models as theirs
from tests.reference import marian
from tests.reference.language_models import english, german

TEXTS = ["the small dog runs", "", "  two  spaces ", "zebra \u4e2d", "a </s> <pad> b", ">>deu<< a dog", "en_XX de"]


def ours(foreign):
    """Ids here: padding, end of sequence and unknown first, `<s>` behind them, the others as they are."""
    return [{1: 0, 2: 1, 3: 2, 0: 3}.get(number, number) for number in foreign]


def request_for(folder, kind, **languages):
    languages = languages or {"target_language": german(kind)}
    paths = {"model_dir": folder / "model", "output_dir": folder / "run"}
    return ImportRequest(format="huggingface", **paths, **languages)


@pytest.fixture(scope="module", params=theirs.KINDS)
def imported(request, tmp_path_factory):
    """An imported model: its kind, folder, config, tensors, tokenizer and report."""
    folder = tmp_path_factory.mktemp(request.param)
    written = theirs.write_model(folder / "model", request.param)
    report = import_run(request_for(folder, request.param))
    return request.param, folder, *written, report


def test_inputs_and_targets_have_the_same_ids(imported):
    kind, folder, _, _, tokenizer, _ = imported
    translator = load(folder / "run").translator()
    texts = [*TEXTS, *theirs.CORPUS]
    rows = translator.input_rows(translator.encode(texts))
    assert rows == [ours(tokenizer.source(text, english(kind))) for text in texts]
    begun = [] if kind == "mbart" else tokenizer.start(german(kind))[1:]
    for ids, text in zip(translator.encode_targets(texts), texts, strict=True):
        assert [*ids, 1] == ours([*begun, *tokenizer.target(text)])
        assert translator.problem.decode_target(ids) == translator.problem.decode_target(ours(tokenizer.text(text)))
    assert translator.problem.decode_target(translator.encode_targets(theirs.CORPUS)[0]) == theirs.CORPUS[0]


def test_targets_have_the_same_probabilities_in_any_direction(imported):
    kind, folder, values, tensors, tokenizer, _ = imported
    source, target = "ein alter Hund schl\u00e4ft", "a cat sees"
    directions = [(german(kind), english(kind)), (english(kind), german(kind))]
    for read, written in directions[kind == "mbart" :]:
        loaded = load(folder / "run").with_languages(read, written)
        start = tokenizer.start(written)
        foreign_read = [*start, *tokenizer.target(target)[:-1]]
        network = theirs.Network(kind, values, tensors)
        expected_TV = network.log_probs(tokenizer.source(source, read), foreign_read)
        outputs = [*start[1:], *tokenizer.target(target)]
        batch = {
            "inputs": np.array([[*ours(tokenizer.source(source, read)), 0, 0]], np.int32),
            "targets": np.array([[*ours(outputs), 0]], np.int32),
        }
        logits_TV = numpy(loaded.model(batch))[0, : len(outputs)].astype(np.float64)
        found_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
        np.testing.assert_allclose(found_TV[:, ours(range(values["vocab_size"]))], expected_TV, atol=1e-5)
        (score,) = loaded.translator().score([(source, target)])
        assert score == pytest.approx(expected_TV[range(len(outputs)), outputs].sum(), abs=1e-4)


def greedy(kind, values, tensors, tokenizer, source, language, limit):
    """Returns the greedy output as foreign ids, without the ids that the decoder starts with."""
    network, read = theirs.Network(kind, values, tensors), tokenizer.start(language)
    written = []
    while len(written) < limit and written[-1:] != [2]:
        log_probs_V = network.log_probs(source, [*read, *written])[-1]
        log_probs_V[1] = -np.inf
        written.append(int(log_probs_V.argmax()))
    return written


def test_greedy_outputs_are_the_same_and_begin_with_the_language(imported):
    kind, folder, values, tensors, tokenizer, _ = imported
    source = tokenizer.source(TEXTS[0], english(kind))
    begun = tokenizer.start(german(kind))[1:]
    limit = len(source) + 3 - len(begun)
    wanted = greedy(kind, values, tensors, tokenizer, source, german(kind), limit)
    translator = load(folder / "run", decode_overrides="beam_size=1").translator()
    ((best,),) = translator.translate([TEXTS[0]], extra_length=3)
    assert list(best.ids) == ours([*begun, *wanted])
    assert best.text == translator.problem.encoders["targets"].decode(ours(wanted))
    # Forced ids cost nothing; the others have the network's log-probabilities.
    log_probs_TV = theirs.Network(kind, values, tensors).log_probs(source, [*tokenizer.start(german(kind)), *wanted])
    cost = log_probs_TV[len(begun) : len(begun) + len(wanted)][range(len(wanted)), wanted].sum()
    assert best.log_prob == pytest.approx(cost, abs=1e-4)


def test_given_beginnings_follow_the_language(imported):
    kind, folder, _, _, tokenizer, _ = imported
    translator = load(folder / "run").translator()
    ((best,),) = translator.translate([TEXTS[0]], prefixes=["ein alter"], extra_length=6)
    begun = [*tokenizer.start(german(kind))[1:], *tokenizer.text("ein alter")]
    assert list(best.ids[: len(begun)]) == ours(begun)


def test_streamed_outputs_and_the_tree_of_a_beam_are_those_of_the_search(imported):
    _, folder, *_ = imported
    translator = load(folder / "run", decode_overrides="beam_size=3").translator()
    ((best,),) = translator.translate([TEXTS[0]], extra_length=3)
    *partial, last = partial_outputs(translator, TEXTS[0], extra_length=3)
    assert [one.ids for one in last.hypotheses] == [best.ids]
    assert all(best.text.startswith(text) for one in partial for text in one.texts)
    (first,) = [node for node in beam_tree(translator, TEXTS[0], extra_length=3) if node.rank == 1]
    assert first.ids == best.ids
    assert first.log_prob == pytest.approx(best.log_prob, abs=1e-4)
    again = beam_tree(translator, TEXTS[0], first.ids[:3], extra_length=3)  # like a page that shows the tree
    assert all(node.ids[:3] == first.ids[: min(3, len(node.ids))] for node in again)


def test_the_report_and_the_record_say_what_was_imported(imported):
    kind, folder, _, tensors, tokenizer, report = imported
    assert report.lines() == [
        "problem text2text_files, model transformer_bart, update 0, without Adam's moments: training starts with empty "
        "ones",
        f"{len(tensors)} tensors became {len(tensors)} weights of {report.parameters:,} parameters",
        "ids: padding 1, end of sequence 2 and unknown 3 became 0, 1 and 2",
        f"3 languages; source {english(kind)}, target {german(kind)}",
        "not needed: none",
    ]
    record = RunDir.open(folder / "run").record
    assert record.problem_options == {"source_language": english(kind), "target_language": german(kind)}
    found = {name: value for section in record.hparams.values() for name, value in section.items()}
    start = tokenizer.codes[german(kind)] if kind == "mbart" else 1
    assert (found["target_start"], found["target_start_id"], found["beam_size"]) == ("id", start, 5)
    assert (found["embedding_norm"], found["positions"]) == (
        (True, "learned") if "mbart" in kind else (False, "sinusoidal")
    )


def test_search_settings_become_hparams_or_are_named(tmp_path):
    theirs.write_model(tmp_path / "model", "m2m", no_repeat_ngram_size=3, min_length=5, repetition_penalty=1.3)
    report = import_run(request_for(tmp_path, "m2m"))
    hparams = load(tmp_path / "run").hparams
    assert (hparams.no_repeat_ngram_size, hparams.min_output_length) == (3, 4)
    assert report.lines()[-1].endswith("no hparam here were left out: repetition_penalty=1.3")


@pytest.mark.parametrize("kind", theirs.KINDS)
@pytest.mark.parametrize("listed", ["map", "whole", "table", "entries"])
def test_codes_are_found_in_other_files(tmp_path, kind, listed):
    *_, tokenizer = theirs.write_model(tmp_path / "model", kind, listed=listed)
    import_run(request_for(tmp_path, kind))
    encoder = load(tmp_path / "run").problem.encoders["inputs"]
    assert encoder.languages.ids == tokenizer.codes
    assert encoder.piece(tokenizer.codes[german(kind)]) == theirs.piece_of(kind, german(kind))


@pytest.mark.parametrize(("named", "languages"), [("m2m100", ["af", "am"]), ("wmt21", ["en", "ha"])])
def test_m2m_knows_its_languages_where_no_file_lists_them(tmp_path, named, languages):
    def edit(values, tensors):
        values["vocab_size"] += 100
        table = tensors["model.shared.weight"]
        tensors["model.shared.weight"] = np.concatenate([table, np.ones((100, table.shape[1]), np.float32)])

    *_, tokenizer = theirs.write_model(tmp_path / "model", "m2m", edit)
    settings = {"tokenizer_class": "M2M100Tokenizer", "language_codes": named}
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps(settings))
    import_run(request_for(tmp_path, "m2m", source_language="de", target_language="en"))
    codes = load(tmp_path / "run").problem.encoders["inputs"].languages.ids
    assert list(codes)[:2] == languages
    assert codes[languages[1]] == codes[languages[0]] + 1 == len(tokenizer.table) + 1
    assert len(codes) == {"m2m100": 100, "wmt21": 8}[named]


def test_nllb_in_its_legacy_form_has_the_language_behind_the_end(tmp_path):
    theirs.write_model(tmp_path / "model", "nllb")
    settings = tmp_path / "model/tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"legacy_behaviour": True}))
    import_run(request_for(tmp_path, "nllb"))
    translator = load(tmp_path / "run").translator()
    tokenizer = theirs.Tokenizer("nllb", tmp_path / "model", legacy=True)
    assert translator.input_rows(translator.encode(TEXTS)) == [
        ours(tokenizer.source(text, "eng_Latn")) for text in TEXTS
    ]
    assert translator.encode_targets(["a dog"])[0][0] == tokenizer.codes["deu_Latn"]


def test_long_inputs_are_cut_inside_the_text(imported):
    kind, folder, *_, tokenizer, _ = imported
    translator = load(folder / "run", decode_overrides="max_input_length=6").translator()
    (row,) = translator.input_rows(translator.encode(["the small dog runs home"]))
    whole = ours(tokenizer.source("the small dog runs home", english(kind)))
    end = 2 if kind == "mbart" else 1
    assert row == [*whole[: 6 - end], *whole[-end:]]


def test_a_language_is_asked_for_by_name(imported):
    kind, folder, *_ = imported
    with pytest.raises(
        UserError, match=r"--source_language=xx: the vocabulary has no code of that language; .*it has "
    ):
        load(folder / "run").with_languages("xx")
    if kind == "mbart":
        said = r"--target_language=en_XX: the model itself begins outputs with one language, de_DE; import it again"
        with pytest.raises(UserError, match=said):
            load(folder / "run").with_languages("", "en_XX")


def test_languages_that_nobody_names_are_asked_for(tmp_path):
    theirs.write_model(tmp_path / "model", "nllb")
    import_run(request_for(tmp_path, "nllb", target_language=""))
    loaded = load(tmp_path / "run")
    with pytest.raises(
        UserError, match=r"does not say its target language, of which the vocabulary has codes; name it"
    ):
        loaded.translator().encode(["a dog"])
    assert loaded.with_languages("", "deu_Latn").translator().encode(["a dog"])


def drop(name):
    return lambda values, tensors: tensors.pop(name)


def put(name, array):
    return lambda values, tensors: tensors.__setitem__(name, np.asarray(array, np.float32))


def setting(**changes):
    return lambda values, tensors: values.update(changes)


@pytest.mark.parametrize(
    ("kind", "edit", "said"),
    [
        ("m2m", drop("model.encoder.layer_norm.bias"), r"beta|layer_norm.bias"),
        (
            "m2m",
            put("model.decoder.extra", [1]),
            r"1 tensors that the model here has no place for: model.decoder.extra",
        ),
        (
            "mbart",
            drop("model.decoder.layernorm_embedding.weight"),
            r"no tensor model.decoder.layernorm_embedding.weig",
        ),
        ("nllb", put("lm_head.weight", [[1]]), r"tensor lm_head.weight is not the same as model.shared.weight"),
        ("nllb", setting(model_type="nllb-moe"), r"model_type='nllb-moe'; models that can be imported are marian, t5"),
        ("nllb", setting(activation_function="tanh"), r"activation_function='tanh' \(known: 'swish', 'silu', 'relu'"),
        ("mbart50", setting(scale_embedding=False), r"scale_embedding=False \(known: True\)"),
        ("m2m", setting(scale_embedding=None), r"has scale_embedding=None; it must be of type bool"),
        ("m2m", setting(tie_word_embeddings=False), r"tie_word_embeddings=False \(known: True\)"),
        (
            "nllb",
            setting(decoder_start_token_id=0),
            r"decoder_start_token_id=0 and eos_token_id=2; such a model begins",
        ),
        ("nllb", setting(vocab_size=5), r"has vocab_size=5, pad_token_id=1 and eos_token_id=2; the table of the model"),
        ("nllb", setting(pad_token_id=2), r"pad_token_id=2 and eos_token_id=2; the table .* <pad> at 1 and </s> at 2"),
        ("mbart", setting(max_position_embeddings=9), r"1 of another shape|2 of another shape"),
    ],
)
def test_another_network_is_refused(tmp_path, kind, edit, said):
    theirs.write_model(tmp_path / "model", kind, edit)
    with pytest.raises(UserError, match=said):
        import_run(request_for(tmp_path, kind))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("sentencepiece.bpe.model", None, r"no sentencepiece.bpe.model there; copy all files of the model"),
        ("sentencepiece.bpe.model", b"none", r"its SentencePiece model of 4 bytes is damaged"),
        ("tokenizer_config.json", b"{}", r"none of tokenizer_config.json, .* lists codes of languages; copy all"),
        (
            "tokenizer_config.json", b'{"tokenizer_class": "T5Tokenizer", "extra_special_tokens": ["deu_Latn"]}',
            r"has tokenizer_class='T5Tokenizer'; tokenizers that can be imported with this model are M2M100Tokenizer",
        ),
        (
            "tokenizer_config.json", b'{"added_tokens_decoder": {"4": {"content": "deu_Latn"}}}',
            r"the tokenizer has deu_Latn at 4; codes have ids of their own from \d+, behind the pieces",
        ),
    ],
)  # fmt: skip
def test_files_that_are_missing_or_of_another_tokenizer(tmp_path, name, content, said):
    theirs.write_model(tmp_path / "model", "nllb")
    (tmp_path / "model" / name).unlink()
    if content is not None:
        (tmp_path / "model" / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        import_run(request_for(tmp_path, "nllb"))


def test_mbart_needs_the_language_that_its_decoder_begins_with(tmp_path):
    theirs.write_model(tmp_path / "model", "mbart", decoder_start_token_id=None)
    with pytest.raises(UserError, match=r"its files name none; name it with --target_language, such as de_DE"):
        import_run(request_for(tmp_path, "mbart", target_language=""))
    *_, tokenizer = theirs.write_model(tmp_path / "other/model", "mbart")
    report = import_run(request_for(tmp_path / "other", "mbart", target_language="ro_RO"))
    assert report.run.hparams.target_start_id == tokenizer.codes["ro_RO"]


def test_models_without_codes_take_no_languages(tmp_path):
    marian.write_model(tmp_path / "model")
    with pytest.raises(UserError, match=r"--target_language: a model of model_type='marian' has no codes of languages"):
        import_run(request_for(tmp_path, "nllb", target_language="de"))
