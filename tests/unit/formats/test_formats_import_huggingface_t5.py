"""T5 and mT5 in the format of transformers: the same ids and probabilities, and errors."""

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from tests.reference import t5
from tests.unit.formats.imports import Import, drop, log_probs, put, setting

TEXTS = [
    "the small dog runs home", "thank <extra_id_0> dog<extra_id_17> old", "<extra_id_99>", "", "  two  spaces ",
    "zebra 中", "<extra_id_100> sleeps", ">>de<< a dog", "a </s> <pad> b",
]  # fmt: skip


@pytest.fixture
def model(importing):
    return importing("huggingface")


@pytest.fixture(scope="module", params=["1.0", "1.1"])
def imported(request, tmp_path_factory):
    """A model, its config and tensors, the loaded run and the report."""
    model = Import(tmp_path_factory.mktemp("t5"), "huggingface")
    written = t5.write_model(model.model, request.param)
    return model, *written, *model("beam_size=1")


def test_texts_have_the_same_ids_and_come_back(imported):
    model, *_, loaded, _ = imported
    encoder, theirs = loaded.problem.encoders["inputs"], t5.Tokenizer(model.model)
    for text in (*TEXTS, *t5.CORPUS):
        assert [*encoder.encode(text), 1] == theirs.encode(text), text
    assert loaded.problem.encoders["targets"] is encoder
    for text in (*t5.CORPUS, "ein<extra_id_0> schläft"):
        assert encoder.decode(encoder.encode(text)) == text


def test_targets_have_the_same_probabilities(imported):
    model, values, tensors, loaded, _ = imported
    tokenizer = t5.Tokenizer(model.model)
    source, target = tokenizer.encode(f"{t5.CORPUS[0]} {TEXTS[1]}"), tokenizer.encode(t5.CORPUS[2])
    assert min(len(source), len(target)) > values["relative_attention_max_distance"]
    expected_TV = t5.Network(values, tensors).log_probs(source, target)
    np.testing.assert_allclose(log_probs(loaded, source, target), expected_TV, atol=1e-5)


@pytest.mark.parametrize("imported", ["1.0"], indirect=True)
def test_greedy_outputs_are_the_same(imported):
    model, values, tensors, loaded, _ = imported
    theirs, source, written = t5.Network(values, tensors), t5.Tokenizer(model.model).encode(TEXTS[0]), []
    limit = len(source) + 2
    while len(written) < limit and written[-1:] != [1]:
        log_probs_V = theirs.log_probs(source, [*written, 1])[-1]
        log_probs_V[0] = -np.inf
        written.append(int(log_probs_V.argmax()))
    ((best,),) = loaded.translator().translate([TEXTS[0]], extra_length=2)
    assert list(best.ids) == written


def test_the_report_and_the_record_say_what_was_imported(imported):
    model, values, tensors, loaded, report = imported
    is_gated = values["feed_forward_proj"] == "gated-gelu"
    assert report.lines()[1:] == [
        f"{len(tensors)} tensors became {len(tensors)} weights of {report.parameters:,} parameters",
        "not needed: none",
    ]
    record = RunDir.open(model.run).record
    found = {name: value for section in record.hparams.values() for name, value in section.items()}
    assert record.hparams_set == "t5_small"
    assert (found["activation"], found["gated_feed_forward"]) == (("gelu_tanh", True) if is_gated else ("relu", False))
    assert found["shared_embedding_and_softmax_weights"] is not is_gated
    assert (found["attention_key_channels"], found["num_encoder_layers"], found["num_decoder_layers"]) == (6, 2, 1)
    assert loaded.problem.spec().targets.vocab_size == values["vocab_size"]


def test_mt5_never_divides_its_hidden_states_and_has_its_sentinels_in_its_pieces(model):
    """With one shared table, as in its newer configurations."""

    def edit(values, tensors):
        values.update(model_type="mt5", vocab_size=values["vocab_size"] - 100)
        tensors["shared.weight"] = tensors["shared.weight"][: values["vocab_size"]]
        tensors["lm_head.weight"] = tensors["shared.weight"].copy()

    network = t5.Network(*t5.write_model(model.model, "1.0", edit))
    model.replace("tokenizer_config.json", {"extra_ids": 0})
    source, target = [5, 9, 4, 1], [7, 3, 1]
    found_TV = log_probs(model.build()[0], source, target)
    np.testing.assert_allclose(found_TV, network.log_probs(source, target), atol=1e-5)


def test_search_settings_become_hparams_or_are_named(model):
    search = {"num_beams": 4, "length_penalty": 0.6, "no_repeat_ngram_size": 2, "min_length": 5}
    t5.write_model(model.model, **search, encoder_no_repeat_ngram_size=3)
    run = model.read()
    assert (run.hparams.beam_size, run.hparams.length_penalty, run.hparams.alpha) == (4, "power", 0.6)
    assert (run.hparams.no_repeat_ngram_size, run.hparams.min_output_length) == (2, 4)
    assert run.warnings[-1].endswith("encoder_no_repeat_ngram_size=3")


def test_what_is_not_needed_is_said_and_so_are_the_names_of_tasks(model):
    bias = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")

    def edit(values, tensors):
        tensors |= {name: tensors["shared.weight"].copy() for name in (*copies, "lm_head.weight")}
        tensors[bias] = np.ones((8, 2), np.float32)
        tasks = {"translation_en_to_de": {"prefix": "translate English to German: "}, "other": {"max_length": 300}}
        values["task_specific_params"] = tasks

    t5.write_model(model.model, "1.0", edit)
    run = model.read()
    assert any("'translate English to German: '" in note for note in run.notes)
    assert run.unused.keys() == {*copies, bias}
    assert "shared.weight" in run.unused[copies[0]] == run.unused[copies[1]] != run.unused[bias]


# === Errors ===
@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (drop("encoder.block.1.layer.1.DenseReluDense.wo.weight"), ["encoder.block.1.layer.1.DenseR"]),
        (drop(f"decoder.{t5.BIAS}"), ["decoder.block.0.layer.0.SelfAttention.relative_attention_bias"]),
        (drop("shared.weight"), ["shared.weight"]),
        (put("model.extra", [1]), [1, "model.extra"]),
        (put("encoder.embed_tokens.weight", [[1]]), ["encoder.embed_tokens.weight", "shared.w"]),
        (put("shared.weight", np.ones((9, 8))), [9, "spiece.model"]),
        (setting(feed_forward_proj="gated-tanh"), ["feed_forward_proj='gated-tanh'", "'gelu_new"]),
        (setting(decoder_start_token_id=2), ["decoder_start_token_id=2"]),
        (setting(dropout_rate=None, num_decoder_layers="2"), ["num_decoder_layers='2'", "int"]),
        (setting(num_layers=0), ["config.json", "num_layers=0"]),
        (setting(dropout_rate="x"), ["dropout_rate='x'"]),
        (setting(layer_norm_epsilon=[]), ["layer_norm_epsilon=[]"]),
        (setting(relative_attention_max_distance=1.5), ["relative_attention_max_distance=1.5"]),
        (setting(num_heads="2"), ["num_heads='2'", "int"]),
        (setting(relative_attention_num_buckets=12), ["relative_bias_buckets=12"]),
    ],
)
def test_another_network_is_refused(model, edit, named):
    t5.write_model(model.model, "1.0", edit)
    model.is_refused(*named)


SENTINELS = [f"<extra_id_{number}>" for number in range(100)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", {"added_tokens_decoder": {"140": {"content": "<hl>"}, "141": {"content": "<sep>"}}}),
        ("tokenizer_config.json", {"additional_special_tokens": ["<extra_id_0>", "<hl>", {"content": "<sep>"}]}),
        ("special_tokens_map.json", {"additional_special_tokens": ["<hl>", "<sep>"]}),
        ("added_tokens.json", {"<hl>": 140, "<sep>": 141}),
        ("tokenizer.json", {"added_tokens": [{"id": 140, "content": "<hl>"}, {"id": 141, "content": "<sep>"}]}),
    ],
)
def test_tokens_that_a_tokenizer_adds_are_refused_by_name(model, name, content):
    t5.write_model(model.model)
    model.replace(name, content)
    model.is_refused("spiece.model", "'<hl>',", "'<sep>'")


def test_files_that_list_sentinels_and_special_pieces_are_read_and_other_values_list_nothing(model):
    t5.write_model(model.model)
    settings = {"extra_ids": None, "additional_special_tokens": True, "added_tokens_decoder": {"a": {"content": None}}}
    model.replace("tokenizer_config.json", settings)
    expected = model.read().problem.encoders["inputs"].fingerprint
    size = t5.Tokenizer(model.model).size
    ids = {"<pad>": 0, "</s>": 1, "<unk>": 2} | {piece: size - 1 - n for n, piece in enumerate(SENTINELS)}
    decoder = {str(number): {"content": piece} for piece, number in ids.items()}
    model.replace("tokenizer_config.json", {"added_tokens_decoder": decoder, "additional_special_tokens": SENTINELS})
    model.replace("special_tokens_map.json", {"additional_special_tokens": SENTINELS, "pad_token": "<pad>"})
    model.replace("added_tokens.json", {piece: ids[piece] for piece in SENTINELS})
    added = [{"id": number, "content": piece} for piece, number in ids.items()]
    model.replace("tokenizer.json", {"added_tokens": added})
    assert model.read().problem.encoders["inputs"].fingerprint == expected


def test_a_vocabulary_of_other_ids_or_numbers_of_sentinels_is_refused(model):
    t5.write_model(model.model)
    model.replace("tokenizer_config.json", {"extra_ids": "many"})
    model.is_refused("tokenizer_config.json", "extra_ids='many'")
    t5.sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(t5.CORPUS), model_prefix=str(model.folder / "other"), vocab_size=40,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model.replace("spiece.model", (model.folder / "other.model").read_bytes())
    model.replace("tokenizer_config.json")
    model.is_refused("spiece.model", "(-1,", "T5's")
    model.replace("spiece.model")
    model.is_refused("spiece.model")


@pytest.mark.parametrize(("more", "unknown"), [(0, "<pad>"), (1, "<unk>")])
def test_the_table_of_an_export_has_a_piece_for_each_row_and_the_unknown_one_is_the_third(model, more, unknown):
    values, _ = t5.write_model(model.model)
    rows = values["vocab_size"]
    model.replace("spiece.model")
    pieces = ["a", "b", unknown, *(f"piece{number}" for number in range(3, rows + more))]
    model.replace("vocab.json", {piece: number for number, piece in enumerate(pieces)})
    model.is_refused("vocab.json", rows, rows + more, f"['{unknown}']")
