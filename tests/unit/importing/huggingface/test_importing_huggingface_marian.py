"""Translators of Marian in the format of transformers: the same ids and probabilities, and errors.

Legend: T target length, V vocabulary.
"""

import dataclasses
import json

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference import marian

TEXTS = [
    "the small dog runs", f"{marian.TAG} a cat sees the house", f"{marian.TAG}the dog", "", "  two  spaces ",
    "zebra 中", ">>fra<< a tag that the table lacks", "a </s> b", ">> no tag",
]  # fmt: skip


def ours(foreign, size):
    """Ids here: padding, end of sequence and unknown first, the others as they come."""
    return [{size - 1: 0, 0: 1, 1: 2}.get(number, number + 1) for number in foreign]


@pytest.fixture
def request_of(tmp_path):
    """Makes a request for the model in `tmp_path / "model"`."""
    return ImportRequest(format="huggingface", model_dir=tmp_path / "model", output_dir=tmp_path / "run")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """An imported model: its folder, its config, its tensors, the loaded run and the report."""
    folder = tmp_path_factory.mktemp("marian")
    values, tensors = marian.write_model(folder / "model")
    request = ImportRequest(format="huggingface", model_dir=folder / "model", output_dir=folder / "run")
    report = import_run(request)
    return folder, values, tensors, load(request.output_dir), report


@pytest.mark.parametrize("side", ["source", "target"])
def test_texts_have_the_same_ids(imported, side):
    folder, values, _, loaded, _ = imported
    encoder = loaded.problem.encoders[{"source": "inputs", "target": "targets"}[side]]
    theirs = marian.Tokenizer(folder / "model")
    for text in (*TEXTS, *marian.CORPUS[side]):
        assert [*encoder.encode(text), 1] == ours(theirs.encode(text, side), values["vocab_size"]), text


def test_text_comes_back(imported):
    encoder = imported[3].problem.encoders["targets"]
    for text in marian.CORPUS["target"]:
        assert encoder.decode(encoder.encode(text)) == text


def test_targets_have_the_same_probabilities(imported):
    folder, values, tensors, loaded, _ = imported
    theirs, tokenizer = marian.Network(values, tensors), marian.Tokenizer(folder / "model")
    source, target = tokenizer.encode(TEXTS[1]), tokenizer.encode("ein alter Hund", "target")
    expected_TV = theirs.log_probs(source, target)
    size = values["vocab_size"]
    batch = {
        "inputs": np.array([[*ours(source, size), 0, 0]], np.int32),
        "targets": np.array([[*ours(target, size), 0]], np.int32),
    }
    logits_TV = numpy(loaded.model(batch))[0, : len(target)].astype(np.float64)
    found_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
    np.testing.assert_allclose(found_TV[:, ours(range(size), size)], expected_TV, atol=1e-5)
    scored_T = numpy(loaded.model.score_targets(batch).log_probs)[0, : len(target)]
    np.testing.assert_allclose(scored_T, expected_TV[range(len(target)), target], atol=1e-5)


def test_two_vocabularies_have_a_table_each(request_of):
    """The target vocabulary has fewer pieces in another order; padding has the same id in both."""

    def edit(values, tensors):
        table = json.loads((request_of.model_dir / "vocab.json").read_text())
        pieces = ["</s>", "<unk>", *list(table)[2:-1][::-1][:20]]
        pieces += [f"rare {number}" for number in range(len(table) - len(pieces) + 2)]
        pieces[table["<pad>"]] = "<pad>"
        targets = {piece: number for number, piece in enumerate(pieces)}
        (request_of.model_dir / "target_vocab.json").write_text(json.dumps(targets))
        values |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(pieces)}
        shared = tensors.pop("model.shared.weight")
        tensors["model.encoder.embed_tokens.weight"] = shared
        rng, shape = np.random.default_rng(7), (len(pieces), shared.shape[1])
        tensors["model.decoder.embed_tokens.weight"] = rng.normal(size=shape).astype(np.float32)
        tensors["model.decoder.embed_tokens.weight"][table["<pad>"]] = 0.0
        tensors["lm_head.weight"] = tensors["model.decoder.embed_tokens.weight"]
        tensors["final_logits_bias"] = rng.normal(size=(1, len(pieces))).astype(np.float32)

    values, tensors = marian.write_model(request_of.model_dir, edit)
    import_run(request_of)
    loaded = load(request_of.output_dir)
    pad, source, target = values["pad_token_id"], [5, 9, 3, 0], [4, 7, 21, 0]
    renumbered = lambda ids: [{pad: 0, 0: 1, 1: 2}.get(n, n + 1 if n < pad else n) for n in ids]  # noqa: E731
    expected_TV = marian.Network(values, tensors).log_probs(source, target)
    batch = {"inputs": np.array([renumbered(source)], np.int32), "targets": np.array([renumbered(target)], np.int32)}
    logits_TV = numpy(loaded.model(batch))[0].astype(np.float64)
    found_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
    np.testing.assert_allclose(found_TV[:, renumbered(range(expected_TV.shape[1]))], expected_TV, atol=1e-5)
    encoders = loaded.problem.encoders
    assert not loaded.problem.spec().shared_vocabulary
    assert encoders["targets"].vocab_size == values["decoder_vocab_size"] != encoders["inputs"].vocab_size


def greedy(values, tensors, source, limit, shortest=0, ngram=0):
    """Returns a greedy output, without end of sequence among its first `shortest` ids, without an n-gram twice."""
    theirs, pad, written = marian.Network(values, tensors), values["pad_token_id"], []
    while len(written) < limit and written[-1:] != [0]:
        log_probs_V = theirs.log_probs(source, [*written, 0])[-1]
        log_probs_V[[pad, 0] if len(written) < shortest else [pad]] = -np.inf
        known = [written[place : place + ngram] for place in range(len(written) - ngram + 1)] if ngram else []
        last = written[len(written) - ngram + 1 :] if ngram else []
        log_probs_V[[gram[-1] for gram in known if gram[:-1] == last]] = -np.inf
        written.append(int(log_probs_V.argmax()))
    return written


def test_greedy_outputs_are_the_same(imported):
    folder, values, tensors, *_ = imported
    source = marian.Tokenizer(folder / "model").encode(TEXTS[0])
    translator = load(folder / "run", decode_overrides="beam_size=1").translator()
    ((best,),) = translator.translate([TEXTS[0]], extra_length=12 - len(source))
    assert list(best.ids) == ours(greedy(values, tensors, source, 12), values["vocab_size"])


@pytest.mark.parametrize(
    ("settings", "end", "rules"),
    [
        ({"min_length": 5}, 20, {"shortest": 4}),  # the id that the decoder begins with counts there
        ({"min_new_tokens": 3, "min_length": 9}, 20, {"shortest": 3}),
        ({"no_repeat_ngram_size": 2}, -20, {"ngram": 2}),
    ],
)
def test_outputs_keep_to_the_rules_of_the_search_settings(request_of, settings, end, rules):
    def edit(values, tensors):
        tensors["final_logits_bias"][0, 0] = end

    values, tensors = marian.write_model(request_of.model_dir, edit, num_beams=1, **settings)
    report = import_run(request_of)
    source = marian.Tokenizer(request_of.model_dir).encode(TEXTS[0])
    limit = len(source) + 8
    wanted = greedy(values, tensors, source, limit, **rules)
    assert wanted != greedy(values, tensors, source, limit)
    ((best,),) = load(request_of.output_dir).translator().translate([TEXTS[0]], extra_length=8)
    assert list(best.ids) == ours(wanted, values["vocab_size"])
    assert not report.run.warnings


def test_search_settings_without_an_hparam_are_named(request_of):
    values, _ = marian.write_model(request_of.model_dir, encoder_no_repeat_ngram_size=0, do_sample=False)
    search = {"bad_words_ids": [[values["pad_token_id"]]], "repetition_penalty": 1.0, "do_sample": None}
    (request_of.model_dir / "generation_config.json").write_text(json.dumps(search))
    assert not import_run(request_of).run.warnings
    search |= {"bad_words_ids": [[5], [7, 8]], "repetition_penalty": 1.2, "encoder_no_repeat_ngram_size": 3}
    (request_of.model_dir / "generation_config.json").write_text(json.dumps(search))
    report = import_run(dataclasses.replace(request_of, output_dir=request_of.output_dir.with_name("again")))
    assert report.lines()[-1] == (
        "warning: search settings that have no hparam here were left out: repetition_penalty=1.2, "
        "encoder_no_repeat_ngram_size=3, bad_words_ids=[[5], [7, 8]]"
    )


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"max_length": 512, "early_stopping": True, "num_beam_groups": 1, "force_words_ids": None}, ""),
        ({"max_length": 20, "max_new_tokens": 99}, "max_length=20, max_new_tokens=99"),
        ({"forced_bos_token_id": 7, "sequence_bias": [[[5], -1.0]]}, "sequence_bias=[[[5], -1.0]], forced_bos_tok"),
        ({"forced_decoder_ids": [[1, 5]], "force_words_ids": [[5]]}, "forced_decoder_ids=[[1, 5]], force_words_ids"),
        ({"num_beam_groups": 2, "penalty_alpha": 0.6}, "num_beam_groups=2, penalty_alpha=0.6"),
    ],
)
def test_settings_that_change_outputs_are_named(request_of, search, said):
    marian.write_model(request_of.model_dir)
    (request_of.model_dir / "generation_config.json").write_text(json.dumps(search))
    start = f"search settings that have no hparam here were left out: {said}"
    assert [text.startswith(start) for text in import_run(request_of).run.warnings] == [True] * bool(said)


def test_the_report_and_the_record_say_what_was_imported(imported):
    folder, values, tensors, loaded, report = imported
    size = values["vocab_size"]
    assert report.lines() == [
        "problem text2text_files, model transformer, update 0, without Adam's moments: training starts with empty ones",
        f"{len(tensors)} tensors became {len(tensors)} weights of {report.parameters:,} parameters",
        f"ids: padding {size - 1}, end of sequence 0 and unknown 1 became 0, 1 and 2",
        "not needed: none",
    ]
    hparams = RunDir.open(folder / "run").record.hparams
    found = {name: value for section in hparams.values() for name, value in section.items()}
    assert (found["activation"], found["sinusoid_layout"], found["output_bias"]) == ("silu", "halves", True)
    assert (found["beam_size"], found["length_penalty"], found["alpha"]) == (6, "power", 1.0)
    assert loaded.problem.spec().shared_vocabulary


def test_a_pytorch_file_gives_the_same_run(request_of, imported, monkeypatch):
    _, _, tensors, loaded, _ = imported
    marian.write_model(request_of.model_dir)
    (request_of.model_dir / "model.safetensors").unlink()
    width = tensors["model.shared.weight"].shape[1]
    copies = {
        "lm_head.weight": tensors["model.shared.weight"],
        "model.encoder.embed_tokens.weight": tensors["model.shared.weight"],
        "model.decoder.embed_positions.weight": marian.positions(64, width).astype(np.float32),
    }
    (request_of.model_dir / "pytorch_model.bin").write_bytes(marian.pytorch_file(tensors | copies, monkeypatch))
    report = import_run(request_of)
    assert report.lines()[-1] == (
        "not needed: model.encoder.embed_tokens.weight, lm_head.weight (the same as model.shared.weight); "
        "model.decoder.embed_positions.weight (sinusoids, which are computed here)"
    )
    for ours_, theirs in zip(load(request_of.output_dir).model.variables, loaded.model.variables, strict=True):
        np.testing.assert_array_equal(numpy(ours_), numpy(theirs))


def test_shards_are_read(request_of, imported):
    _, tensors = marian.write_model(request_of.model_dir)
    (request_of.model_dir / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, part in shards.items():
        marian.save_file({name: tensors[name] for name in part}, request_of.model_dir / file)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    (request_of.model_dir / "model.safetensors.index.json").write_text(json.dumps(index))
    assert import_run(request_of).run.tensors == len(tensors)
    index["weight_map"][names[0]] = "../a.safetensors"
    (request_of.model_dir / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=r"has no weight_map of tensors to files next to it; get it again"):
        import_run(request_of)


def drop(name):
    return lambda values, tensors: tensors.pop(name)


def put(name, array):
    return lambda values, tensors: tensors.__setitem__(name, np.asarray(array, np.float32))


def setting(**changes):
    return lambda values, tensors: values.update(changes)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            drop("model.encoder.layers.1.fc2.weight"),
            r"it has no tensor model.encoder.layers.1.fc2.weight among its ",
        ),
        (put("model.extra", [1]), r"it has 1 tensors that the model here has no place for: model.extra; this network"),
        (put("lm_head.weight", [[1]]), r"tensor lm_head.weight is not the same as model.shared.weight"),
        (
            put("model.encoder.layers.0.fc1.bias", [1]),
            r"1 of another shape: encoder/layer_0/ffn/inner/bias \(\(1,\)",
        ),
        (
            put("final_logits_bias", [[1]]),
            r"tokens in model.shared.weight and 1 biases; the vocabularies have \d+ ids, and",
        ),
        (setting(activation_function="tanh"), r"activation_function='tanh' \(known: 'swish', 'silu', 'relu', 'gelu'\)"),
        (setting(scale_embedding=False, normalize_before=True), r"scale_embedding=False .*; normalize_before=True "),
        (setting(decoder_ffn_dim=3), r"has encoder_ffn_dim=12 and decoder_ffn_dim=3; the models here have one value"),
        (setting(encoder_layers=0), r"config.json has encoder_layers=0; it must be above 0; get it again"),
        (setting(decoder_ffn_dim=[]), r"has encoder_ffn_dim=12 and decoder_ffn_dim=\[\]; the models here have one val"),
        (setting(num_beams=float("inf")), r"its configuration has num_beams=inf, which is no number; get it again"),
        (setting(model_type=["marian"]), r"config.json has model_type=\['marian'\]; models that can be imported are m"),
        (setting(dropout="much"), r"its configuration has dropout='much', which is no number; get it again"),
        (setting(scale_embedding=None), r"has scale_embedding=None; it must be of type bool; get it again"),
        (setting(d_model="8"), r"has d_model='8'; it must be of type int; get it again"),
        (setting(vocab_size=3), r"vocab.json has \d+ ids, config.json vocab_size=3; get both again"),
        (setting(decoder_start_token_id=0), r"decoder_start_token_id=0 and pad_token_id=\d+; the decoder here begins"),
        (setting(eos_token_id=900), r"ids, eos is 900"),
        (setting(model_type="bert"), r"config.json has model_type='bert'; models that can be imported are marian"),
    ],
)
def test_another_network_is_refused(request_of, edit, said):
    marian.write_model(request_of.model_dir, edit)
    with pytest.raises(UserError, match=said):
        import_run(request_of)
    assert not request_of.output_dir.exists()


def test_a_decoder_that_begins_with_something_else_than_zeros_is_refused(request_of):
    def edit(values, tensors):
        tensors["model.shared.weight"][values["pad_token_id"]] = 0.5

    marian.write_model(request_of.model_dir, edit)
    with pytest.raises(UserError, match=r"vector of padding is not zero, and its decoder begins with it; the"):
        import_run(request_of)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", b"{", r"config.json is no JSON"),
        ("config.json", b"[]", r"config.json holds list, not names with values; get it again"),
        ("config.json", None, r"--model_dir=.*: no config.json there; copy all files of the model"),
        ("vocab.json", b'{"a": 0, "b": 2}', r"vocab.json: its 2 ids are not 0 to 1, one a piece; get it again"),
        ("source.spm", b"none", r"piece table: its SentencePiece model of 4 bytes is damaged"),
        ("model.safetensors", b"none", r"model.safetensors: .*; get the file again"),
        ("model.safetensors", None, r"no weights there; the files that can be read are model.safetensors, pytorch_mo"),
    ],
)
def test_files_that_are_missing_or_damaged(request_of, name, content, said):
    marian.write_model(request_of.model_dir)
    if content is None:
        (request_of.model_dir / name).unlink()
    else:
        (request_of.model_dir / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        import_run(request_of)
