"""T5 and mT5 in the format of transformers: the same ids and probabilities, and errors.

Legend: T target length, V vocabulary.
"""

import json

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.runs.loading import load
from tests.builders import numpy
from tests.reference import t5

TEXTS = [
    "the small dog runs home", "thank <extra_id_0> dog<extra_id_17> old", "<extra_id_99>", "", "  two  spaces ",
    "zebra 中", "<extra_id_100> sleeps", ">>de<< a dog", "a </s> <pad> b",
]  # fmt: skip


def request_for(folder):
    return ImportRequest(format="huggingface", model_dir=folder / "model", output_dir=folder / "run")


@pytest.fixture(scope="module", params=["1.0", "1.1"])
def imported(request, tmp_path_factory):
    """An imported model: its folder, its config, its tensors, the loaded run and the report."""
    folder = tmp_path_factory.mktemp("t5")
    values, tensors = t5.write_model(folder / "model", request.param)
    report = import_run(request_for(folder))
    return folder, values, tensors, load(folder / "run"), report


def test_texts_have_the_same_ids(imported):
    folder, *_, loaded, _ = imported
    encoder, theirs = loaded.problem.encoders["inputs"], t5.Tokenizer(folder / "model")
    for text in (*TEXTS, *t5.CORPUS):
        assert [*encoder.encode(text), 1] == theirs.encode(text), text
    assert loaded.problem.encoders["targets"] is encoder


def test_text_and_sentinels_come_back(imported):
    encoder = imported[3].problem.encoders["targets"]
    for text in (*t5.CORPUS, "ein<extra_id_0> schläft"):
        assert encoder.decode(encoder.encode(text)) == text


def log_probs_of(loaded, source, target):
    batch = {"inputs": np.array([[*source, 0, 0]], np.int32), "targets": np.array([[*target, 0]], np.int32)}
    logits_TV = numpy(loaded.model(batch))[0, : len(target)].astype(np.float64)
    return logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))


def test_targets_have_the_same_probabilities(imported):
    folder, values, tensors, loaded, _ = imported
    tokenizer = t5.Tokenizer(folder / "model")
    source, target = tokenizer.encode(f"{t5.CORPUS[0]} {TEXTS[1]}"), tokenizer.encode(t5.CORPUS[2])
    assert min(len(source), len(target)) > values["relative_attention_max_distance"]
    expected_TV = t5.Network(values, tensors).log_probs(source, target)
    np.testing.assert_allclose(log_probs_of(loaded, source, target), expected_TV, atol=1e-5)


def test_greedy_outputs_are_the_same(imported):
    folder, values, tensors, *_ = imported
    theirs, source, written = t5.Network(values, tensors), t5.Tokenizer(folder / "model").encode(TEXTS[0]), []
    limit = len(source) + 2
    while len(written) < limit and written[-1:] != [1]:
        log_probs_V = theirs.log_probs(source, [*written, 1])[-1]
        log_probs_V[0] = -np.inf
        written.append(int(log_probs_V.argmax()))
    greedy = load(folder / "run", decode_overrides="beam_size=1").translator()
    ((best,),) = greedy.translate([TEXTS[0]], extra_length=2)
    assert list(best.ids) == written


def test_the_report_and_the_record_say_what_was_imported(imported):
    folder, values, tensors, loaded, report = imported
    is_gated = values["feed_forward_proj"] == "gated-gelu"
    assert report.lines()[1:] == [
        f"{len(tensors)} tensors became {len(tensors)} weights of {report.parameters:,} parameters",
        "not needed: none",
    ]
    record = RunDir.open(folder / "run").record
    found = {name: value for section in record.hparams.values() for name, value in section.items()}
    assert record.hparams_set == "t5_small"
    assert (found["activation"], found["gated_feed_forward"]) == (("gelu_tanh", True) if is_gated else ("relu", False))
    assert found["shared_embedding_and_softmax_weights"] is not is_gated
    assert (found["attention_key_channels"], found["num_encoder_layers"], found["num_decoder_layers"]) == (6, 2, 1)
    assert loaded.problem.spec().targets.vocab_size == values["vocab_size"]


def test_mt5_never_divides_its_hidden_states_and_has_its_sentinels_in_its_pieces(tmp_path):
    """With one shared table, as in its newer configurations."""

    def edit(values, tensors):
        values.update(model_type="mt5", vocab_size=values["vocab_size"] - 100)
        tensors["shared.weight"] = tensors["shared.weight"][: values["vocab_size"]]
        tensors["lm_head.weight"] = tensors["shared.weight"].copy()

    values, tensors = t5.write_model(tmp_path / "model", "1.0", edit)
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps({"extra_ids": 0}))
    import_run(request_for(tmp_path))
    source, target = [5, 9, 4, 1], [7, 3, 1]
    expected_TV = t5.Network(values, tensors).log_probs(source, target)
    np.testing.assert_allclose(log_probs_of(load(tmp_path / "run"), source, target), expected_TV, atol=1e-5)


def test_search_settings_become_hparams_or_are_named(tmp_path):
    search = {"num_beams": 4, "length_penalty": 0.6, "no_repeat_ngram_size": 2, "min_length": 5}
    t5.write_model(tmp_path / "model", **search, encoder_no_repeat_ngram_size=3)
    report = import_run(request_for(tmp_path))
    hparams = load(tmp_path / "run").hparams
    assert (hparams.beam_size, hparams.length_penalty, hparams.alpha) == (4, "power", 0.6)
    assert (hparams.no_repeat_ngram_size, hparams.min_output_length) == (2, 4)
    assert report.lines()[-1].endswith("no hparam here were left out: encoder_no_repeat_ngram_size=3")


def test_what_is_not_needed_is_said_and_so_are_the_names_of_tasks(tmp_path):
    def edit(values, tensors):
        for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = tensors["shared.weight"].copy()
        tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = np.ones((8, 2), np.float32)
        tasks = {"translation_en_to_de": {"prefix": "translate English to German: "}, "other": {"max_length": 300}}
        values["task_specific_params"] = tasks

    t5.write_model(tmp_path / "model", "1.0", edit)
    assert import_run(request_for(tmp_path)).lines()[2:] == [
        "texts begin with the name of their task: 'translate English to German: '",
        "not needed: encoder.embed_tokens.weight, decoder.embed_tokens.weight (the same as shared.weight); "
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight (attention to inputs has no positions)",
    ]


def drop(name):
    return lambda values, tensors: tensors.pop(name)


def setting(**changes):
    return lambda values, tensors: values.update(changes)


def put(name, array):
    return lambda values, tensors: tensors.__setitem__(name, np.asarray(array, np.float32))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (drop("encoder.block.1.layer.1.DenseReluDense.wo.weight"), r"it has no tensor encoder.block.1.layer.1.DenseR"),
        (drop(f"decoder.{t5.BIAS}"), r"it has no tensor decoder.block.0.layer.0.SelfAttention.relative_attention_bias"),
        (drop("shared.weight"), r"it has no tensor shared.weight among its "),
        (put("model.extra", [1]), r"it has 1 tensors that the model here has no place for: model.extra; this network"),
        (put("encoder.embed_tokens.weight", [[1]]), r"tensor encoder.embed_tokens.weight is not the same as shared.w"),
        (
            put("shared.weight", np.ones((9, 8))),
            r"the table has 9 rows, and spiece.model with its sentinels \d+ pieces",
        ),
        (setting(feed_forward_proj="gated-tanh"), r"feed_forward_proj='gated-tanh' \(known: 'relu', 'gelu', 'gelu_new"),
        (setting(decoder_start_token_id=2), r"decoder_start_token_id=2 \(known: 0\); it cannot be imported"),
        (setting(dropout_rate=None, num_decoder_layers="2"), r"has num_decoder_layers='2'; it must be of type int"),
        (setting(num_layers=0), r"config.json has num_layers=0; it must be above 0; get it again"),
        (setting(dropout_rate="x"), r"its configuration has dropout_rate='x', which is no number; get it again"),
        (setting(layer_norm_epsilon=[]), r"its configuration has layer_norm_epsilon=\[\], which is no number; get it"),
        (setting(relative_attention_max_distance=1.5), r"has relative_attention_max_distance=1.5; it must be of"),
        (setting(num_heads="2"), r"has num_heads='2'; it must be of type int; get it again"),
        (setting(relative_attention_num_buckets=12), r"hparam relative_bias_buckets=12: half of them are for one"),
    ],
)
def test_another_network_is_refused(tmp_path, edit, said):
    t5.write_model(tmp_path / "model", "1.0", edit)
    with pytest.raises(UserError, match=said):
        import_run(request_for(tmp_path))
    assert not (tmp_path / "run").exists()


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
def test_tokens_that_a_tokenizer_adds_are_refused_by_name(tmp_path, name, content):
    t5.write_model(tmp_path / "model")
    (tmp_path / "model" / name).write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"neither pieces of spiece.model nor its sentinels: '<hl>', '<sep>'; texts he"):
        import_run(request_for(tmp_path))


def test_a_wrong_number_of_sentinels_is_refused(tmp_path):
    t5.write_model(tmp_path / "model")
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps({"extra_ids": "many"}))
    with pytest.raises(UserError, match=r"tokenizer_config.json has extra_ids='many'; it must be a whole number of at"):
        import_run(request_for(tmp_path))


def test_values_of_other_types_in_files_of_a_tokenizer_list_nothing(tmp_path):
    t5.write_model(tmp_path / "model")
    settings = {"extra_ids": None, "additional_special_tokens": True, "added_tokens_decoder": {"a": {"content": None}}}
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps(settings))
    import_run(request_for(tmp_path))
    assert (tmp_path / "run/run.json").exists()


def test_files_that_list_sentinels_and_special_pieces_are_read(tmp_path):
    t5.write_model(tmp_path / "model")
    size = t5.Tokenizer(tmp_path / "model").size
    ids = {"<pad>": 0, "</s>": 1, "<unk>": 2} | {piece: size - 1 - n for n, piece in enumerate(SENTINELS)}
    decoder = {str(number): {"content": piece} for piece, number in ids.items()}
    files = {
        "tokenizer_config.json": {"added_tokens_decoder": decoder, "additional_special_tokens": SENTINELS},
        "special_tokens_map.json": {"additional_special_tokens": SENTINELS, "pad_token": "<pad>"},
        "added_tokens.json": {piece: ids[piece] for piece in SENTINELS},
        "tokenizer.json": {"added_tokens": [{"id": number, "content": piece} for piece, number in ids.items()]},
    }
    for name, content in files.items():
        (tmp_path / "model" / name).write_text(json.dumps(content))
    import_run(request_for(tmp_path))
    assert (tmp_path / "run/run.json").exists()


def test_a_vocabulary_of_other_ids_is_refused(tmp_path):
    t5.write_model(tmp_path / "model")
    model = tmp_path / "model/spiece.model"
    t5.sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(t5.CORPUS), model_prefix=str(tmp_path / "other"), vocab_size=40,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model.write_bytes((tmp_path / "other.model").read_bytes())
    with pytest.raises(
        UserError, match=r"spiece.model has padding, end of sequence and unknown at \(-1, 2, 0\); T5's "
    ):
        import_run(request_for(tmp_path))
    model.unlink()
    with pytest.raises(UserError, match=r"no spiece.model there; copy all files of the model"):
        import_run(request_for(tmp_path))
