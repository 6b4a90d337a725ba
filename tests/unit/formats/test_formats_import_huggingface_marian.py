"""Translators of Marian in the format of transformers: the same ids and probabilities, and errors."""

import json

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.files.trust import MOST_BYTES
from tests.builders import numpy
from tests.reference import marian
from tests.unit.formats.imports import Import, check_scores, drop, log_probs, put, setting

TEXTS = [
    "the small dog runs", f"{marian.TAG} a cat sees the house", f"{marian.TAG}the dog", "", "  two  spaces ",
    "zebra 中", ">>fra<< a tag that the table lacks", "a </s> b", ">> no tag",
]  # fmt: skip


def ours(foreign, pad):
    """Ids here: padding, end of sequence and unknown first, the others as they come."""
    return [{pad: 0, 0: 1, 1: 2}.get(number, number + (number < pad)) for number in foreign]


@pytest.fixture
def model(importing):
    return importing("huggingface")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A model, its config and tensors, the loaded run and the report."""
    model = Import(tmp_path_factory.mktemp("marian"), "huggingface")
    written = marian.write_model(model.model)
    return model, *written, *model("beam_size=1")


def test_texts_have_the_same_ids_and_come_back(imported):
    model, values, _, loaded, _ = imported
    theirs = marian.Tokenizer(model.model)
    for side, encoder in zip(("source", "target"), loaded.problem.encoders.values(), strict=True):
        for text in (*TEXTS, *marian.CORPUS[side]):
            assert [*encoder.encode(text), 1] == ours(theirs.encode(text, side), values["pad_token_id"]), text
    for text in marian.CORPUS["target"]:
        assert encoder.decode(encoder.encode(text)) == text


def check_probabilities(loaded, values, tensors, source, target):
    expected_TV, pad = marian.Network(values, tensors).log_probs(source, target), values["pad_token_id"]
    found_TV = log_probs(loaded, ours(source, pad), ours(target, pad))
    np.testing.assert_allclose(found_TV[:, ours(range(expected_TV.shape[1]), pad)], expected_TV, atol=1e-5)
    return expected_TV[range(len(target)), target]


def test_targets_have_the_same_probabilities(imported):
    model, values, tensors, loaded, _ = imported
    tokenizer, pair = marian.Tokenizer(model.model), (TEXTS[1], "ein alter Hund")
    ids = tokenizer.encode(pair[0]), tokenizer.encode(pair[1], "target")
    check_scores(loaded, [pair], [check_probabilities(loaded, values, tensors, *ids)])


@pytest.mark.parametrize(
    "tables", [["model.decoder.embed_tokens.weight", "lm_head.weight"], ["lm_head.weight"]], ids=["both", "one"]
)
def test_two_vocabularies_have_a_table_each(model, tables):
    """The target vocabulary has fewer pieces in another order; padding has the same id in both."""

    def edit(values, tensors):
        table = json.loads((model.model / "vocab.json").read_text())
        pieces = ["</s>", "<unk>", *list(table)[2:-1][::-1][:20]]
        pieces += [f"rare {number}" for number in range(len(table) - len(pieces) + 2)]
        pieces[table["<pad>"]] = "<pad>"
        targets = {piece: number for number, piece in enumerate(pieces)}
        model.replace("target_vocab.json", targets)
        values |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(pieces)}
        shared = tensors.pop("model.shared.weight")
        tensors["model.encoder.embed_tokens.weight"] = shared
        rng, shape = np.random.default_rng(7), (len(pieces), shared.shape[1])
        own = rng.normal(size=shape).astype(np.float32)
        own[table["<pad>"]] = 0.0
        tensors |= dict.fromkeys(tables, own)
        tensors["final_logits_bias"] = rng.normal(size=(1, len(pieces))).astype(np.float32)

    values, tensors = marian.write_model(model.model, edit)
    tensors["model.decoder.embed_tokens.weight"] = tensors["lm_head.weight"]
    loaded, _ = model.build()
    check_probabilities(loaded, values, tensors, [5, 9, 3, 0], [4, 7, 21, 0])
    encoders = loaded.problem.encoders
    assert not loaded.problem.spec().shared_vocabulary
    assert encoders["targets"].vocab_size == values["decoder_vocab_size"] != encoders["inputs"].vocab_size


def test_a_decoder_of_other_heads_and_another_inner_width(model):
    written = marian.write_model(model.model, decoder_attention_heads=4, decoder_ffn_dim=20)
    loaded, read = model.build()
    check_probabilities(loaded, *written, [5, 9, 3, 0], [4, 7, 21, 0])
    assert (read.hparams.num_decoder_heads, read.hparams.decoder_filter_size) == (4, 20)


# === Search ===
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


@pytest.mark.parametrize(
    ("settings", "end", "rules"),
    [
        ({"min_length": 5}, 20, {"shortest": 4}),  # the id that the decoder begins with counts there
        ({"min_new_tokens": 3, "min_length": 9, "no_repeat_ngram_size": 2}, 5, {"shortest": 3, "ngram": 2}),
    ],
)
def test_greedy_outputs_are_the_same_by_the_rules_of_the_search_settings(model, settings, end, rules):
    def edit(values, tensors):
        tensors["final_logits_bias"][0, 0] += end

    values, tensors = marian.write_model(model.model, edit, num_beams=1, **settings)
    translator, read = model.build()
    source = marian.Tokenizer(model.model).encode(TEXTS[0])
    limit = len(source) + 8
    wanted = greedy(values, tensors, source, limit, **rules)
    for left_out in rules:
        assert wanted != greedy(values, tensors, source, limit, **{**rules, left_out: 0})
    ((best,),) = translator.translate([TEXTS[0]], extra_length=8)
    assert list(best.ids) == ours(wanted, values["pad_token_id"])
    assert not read.warnings


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"max_length": 512, "early_stopping": True, "num_beam_groups": 1, "force_words_ids": None}, ""),
        ({"bad_words_ids": [["pad"]], "repetition_penalty": 1.0, "do_sample": None}, ""),
        (
            {"bad_words_ids": [[5], [7, 8]], "repetition_penalty": 1.2, "encoder_no_repeat_ngram_size": 3},
            "repetition_penalty=1.2, encoder_no_repeat_ngram_size=3, bad_words_ids=[[5], [7, 8]]",
        ),
        ({"max_length": 20, "max_new_tokens": 99}, "max_length=20, max_new_tokens=99"),
        ({"forced_bos_token_id": 7, "sequence_bias": [[[5], -1.0]]}, "sequence_bias=[[[5], -1.0]], forced_bos_tok"),
        ({"forced_decoder_ids": [[1, 5]], "force_words_ids": [[5]]}, "forced_decoder_ids=[[1, 5]], force_words_ids"),
        ({"num_beam_groups": 2, "penalty_alpha": 0.6}, "num_beam_groups=2, penalty_alpha=0.6"),
    ],
)
def test_search_settings_that_have_no_hparam_are_named(model, search, said):
    values, _ = marian.write_model(model.model, encoder_no_repeat_ngram_size=0, do_sample=False)
    if search.get("bad_words_ids") == [["pad"]]:
        search = search | {"bad_words_ids": [[values["pad_token_id"]]]}
    model.replace("generation_config.json", search)
    assert [said in text for text in model.read().warnings] == [True] * bool(said)


def test_search_settings_that_an_hparam_cannot_have_are_left_out(model):
    marian.write_model(model.model, length_penalty=-0.5, num_beams=0, no_repeat_ngram_size=3)
    found = model.report().run
    assert (found.hparams.alpha, found.hparams.beam_size, found.hparams.no_repeat_ngram_size) == (1.0, 6, 3)
    assert [["alpha=-0.5" in text, "beam_size=0" in text] for text in found.warnings] == [[False, True], [True, False]]


# === The report, and other files of weights ===
def test_the_report_and_the_record_say_what_was_imported(imported):
    model, values, tensors, loaded, report = imported
    assert report.lines() == [
        "problem text2text_files, model transformer, update 0, without Adam's moments: training starts with empty ones",
        f"{len(tensors)} tensors became {len(tensors)} weights of {report.parameters:,} parameters",
        f"ids: padding {values['pad_token_id']}, end of sequence 0 and unknown 1 became 0, 1 and 2",
        "not needed: none",
    ]
    hparams = RunDir.open(model.run).record.hparams
    found = {name: value for section in hparams.values() for name, value in section.items()}
    assert (found["activation"], found["sinusoid_layout"], found["output_bias"]) == ("silu", "halves", True)
    assert (found["beam_size"], found["length_penalty"], found["alpha"]) == (6, "power", 1.0)
    assert loaded.problem.spec().shared_vocabulary


def test_a_pytorch_file_gives_the_same_run(model, imported, monkeypatch):
    _, _, tensors, loaded, _ = imported
    marian.write_model(model.model)
    model.replace("model.safetensors")
    shared, positions = tensors["model.shared.weight"], "model.decoder.embed_positions.weight"
    copies = dict.fromkeys(("lm_head.weight", "model.encoder.embed_tokens.weight"), shared)
    copies[positions] = marian.positions(64, shared.shape[1]).astype(np.float32)
    model.replace("pytorch_model.bin", marian.pytorch_file(tensors | copies, monkeypatch))
    report = model.report()
    assert report.run.unused.keys() == copies.keys()
    assert all(name in report.lines()[-1] for name in copies)
    for variable in loaded.model.variables:
        np.testing.assert_array_equal(report.run.weights[variable.path.partition("/")[2]], numpy(variable))


@pytest.mark.parametrize("name", ["lm_head", "model.decoder.embed_tokens", "model.encoder.embed_tokens"])
def test_a_shared_table_may_have_the_name_of_a_copy(model, imported, name):
    """Of tensors that share memory, `safetensors.torch.save_model` and Accelerate keep one."""

    def edit(_, tensors):
        tensors[f"{name}.weight"] = tensors.pop("model.shared.weight")

    marian.write_model(model.model, edit)
    expected, found = imported[-1].run.weights, model.read().weights
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(found["target_embedding/table"], expected["target_embedding/table"])


def test_shards_are_read(model):
    _, tensors = marian.write_model(model.model)
    model.replace("model.safetensors")
    names = sorted(tensors)
    shards = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, part in shards.items():
        marian.save_file({name: tensors[name] for name in part}, model.model / file)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    index["weight_map"][names[0]] = "../a.safetensors"
    model.replace("model.safetensors.index.json", index)
    model.is_refused("model.safetensors.index.json", "weight_map")
    index["weight_map"][names[0]] = "a.safetensors"
    model.replace("model.safetensors.index.json", index)
    assert model.report().run.tensors == len(tensors)


# === Errors ===
def nonzero_padding(values, tensors):
    """A decoder that begins with something else than zeros."""
    tensors["model.shared.weight"][values["pad_token_id"]] = 0.5


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (drop("model.encoder.layers.1.fc2.weight"), ["model.encoder.layers.1.fc2.weight"]),
        (put("model.extra", [1]), [1, "model.extra"]),
        (put("lm_head.weight", [[1]]), ["lm_head.weight", "model.shared.weight"]),
        (put("model.encoder.layers.0.fc1.bias", [1]), [1, "encoder/layer_0/ffn/inner/bias", "((1,)"]),
        (put("final_logits_bias", [[1]]), ["model.shared.weight", 1]),
        (setting(activation_function="tanh"), ["activation_function='tanh'", "'swish'"]),
        (setting(scale_embedding=False, normalize_before=True), ["scale_embedding=False", "normalize_before=True"]),
        (setting(decoder_attention_heads=3), ["num_decoder_heads=3", 8]),
        (setting(encoder_layers=0), ["config.json", "encoder_layers=0"]),
        (setting(decoder_ffn_dim=[]), ["config.json", "decoder_ffn_dim=[]", "int"]),
        (setting(num_beams=float("inf")), ["num_beams=inf"]),
        (setting(model_type=["marian"]), ["config.json", "model_type=['marian']"]),
        (setting(dropout="much"), ["dropout='much'"]),
        (setting(scale_embedding=None), ["scale_embedding=None", "bool"]),
        (setting(d_model="8"), ["d_model='8'", "int"]),
        (setting(vocab_size=3), ["vocab.json", "config.json", "vocab_size=3", "resize_token_embeddings"]),
        (setting(decoder_start_token_id=0), ["decoder_start_token_id=0", "pad_token_id="]),
        (setting(eos_token_id=900), [900]),
        (setting(model_type="bert"), ["config.json", "model_type='bert'", "marian"]),
        (nonzero_padding, ["zero"]),
    ],
)
def test_another_network_is_refused(model, edit, named):
    marian.write_model(model.model, edit)
    model.is_refused(*named)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("config.json", b"{", ["config.json", "JSON"]),
        ("config.json", b"[]", ["config.json", "list"]),
        ("config.json", None, ["--model_dir=", "config.json"]),
        ("vocab.json", b'{"a": 0, "b": 2}', ["vocab.json", 2]),
        ("added_tokens.json", {"<hl>": 99}, ["vocab.json:", "'<hl>';"]),
        ("source.spm", b"none", [4]),
        ("model.safetensors", b"none", ["model.safetensors"]),
        ("model.safetensors", None, ["model.safetensors", "pytorch_mo"]),
    ],
)
def test_files_that_are_missing_or_damaged(model, name, content, named):
    marian.write_model(model.model)
    model.replace(name, content)
    model.is_refused(*named)


def test_a_file_that_is_too_large_is_not_read(model):
    marian.write_model(model.model)
    with (model.model / "config.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    model.is_refused("config.json", f"{MOST_BYTES + 1:,}")
