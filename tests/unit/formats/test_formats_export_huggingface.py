"""Folders for transformers: what was imported comes back bit for bit, and runs trained here are the same network.

The networks of transformers are those of tests/reference, in numpy. The library itself is used only if it is installed,
here or in the environment of `python -m benchmarks imports`.

Legend: T target length, V vocabulary.
"""

import json
import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file

from t2t.checkpoints.run_dir import RunDir
from t2t.formats.exporter import ExportJob, Trial
from t2t.formats.exporting import example_text
from t2t.formats.huggingface.write import HuggingFaceExport
from t2t.formats.parity import ParityError
from t2t.hparams.lstm import LstmHParams
from t2t.models.lstm import LstmSeq2seq
from t2t.runs.importing import import_run
from t2t.runs.loading import load
from t2t.runs.names import request_import
from t2t.text.encoder import LanguageMarks
from t2t.text.sentencepiece import SentencePieceEncoder
from tests.builders import numpy, weights_of
from tests.errors import refused
from tests.letters import letters, marked_letters, translator_of
from tests.peers import transformers_python
from tests.readme import blocks
from tests.reference import marian, t5

PIECES = SentencePieceEncoder.build(t5.CORPUS, 320)
MARIAN = {
    "the paper's": {},
    "sines first, biases, swish": {
        "sinusoid_layout": "halves", "attention_bias": True, "output_bias": True, "activation": "silu",
        "num_encoder_layers": 1, "norm_epsilon": 1e-5, "num_decoder_heads": 1, "decoder_filter_size": 20,
    },
}  # fmt: skip
T5 = {
    "positions": "relative_bias", "relative_bias_buckets": 8, "relative_bias_max_distance": 6, "norm_type": "rms",
    "norm_position": "pre", "feed_forward_bias": False, "target_start": "pad", "attention_key_channels": 6,
    "attention_value_channels": 6,
}  # fmt: skip
T5_FORMS = {
    "1.0": T5,
    "1.1": {
        **T5, "gated_feed_forward": True, "activation": "gelu_tanh", "shared_embedding_and_softmax_weights": False,
    },
}  # fmt: skip
FORMS = MARIAN | {f"T5 {version}": changes for version, changes in T5_FORMS.items()}
LINES = [" ".join(line.split()[:n]) for n, line in enumerate(t5.CORPUS[:4], start=2)]


def of_pieces(**changes):
    """A translator with random weights and a SentencePiece vocabulary."""
    return translator_of(letters().with_encoders(dict.fromkeys(("inputs", "targets"), PIECES)), **changes)


def written(translator, folder, **job):
    """Writes an export without verifying it."""
    folder.mkdir(parents=True)
    made = HuggingFaceExport(translator, ExportJob(folder=folder, format="huggingface", **job))
    made.write(folder)
    return made


def imported(folder):
    """Imports `folder / "model"` and loads the run."""
    request = request_import(format="huggingface", model_dir=folder / "model", output_dir=folder / "run")
    import_run(request)
    return load(request.output_dir)


def read(folder):
    """Returns the configuration and the tensors of a folder."""
    return json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")


def test_a_marian_translator_comes_back_bit_for_bit_in_our_order_of_ids(tmp_path):
    values, tensors = marian.write_model(tmp_path / "model", num_beams=3, length_penalty=0.7)
    loaded = imported(tmp_path)
    written(loaded.translator(), tmp_path / "again/model")
    config, found = read(tmp_path / "again/model")
    size = values["vocab_size"]
    order = [size - 1, *range(size - 1)]  # padding, end of sequence, unknown, the others
    expected = tensors | {
        "model.shared.weight": tensors["model.shared.weight"][order],
        "final_logits_bias": tensors["final_logits_bias"][:, order],
    }
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, name)
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    kept = {name: value for name, value in values.items() if name not in ("num_beams", "length_penalty")}
    assert {name: config[name] for name in kept} == kept | ids
    search = json.loads((tmp_path / "again/model/generation_config.json").read_text())
    wanted = {"num_beams": 3, "length_penalty": 0.7, "max_length": 64, "bad_words_ids": [[0]], "forced_eos_token_id": 1}
    assert search | wanted | ids == search
    for side in ("source", "target"):
        assert (tmp_path / f"again/model/{side}.spm").read_bytes() == (tmp_path / f"model/{side}.spm").read_bytes()
    check_same_run(loaded, imported(tmp_path / "again"))


def check_same_run(expected, found):
    """Compares two runs: weights and vocabularies bit for bit, the network, the search."""
    for ours, theirs in zip(expected.model.variables, found.model.variables, strict=True):
        np.testing.assert_array_equal(numpy(ours), numpy(theirs), ours.path)
    assert found.problem.encoders["inputs"].fingerprint == expected.problem.encoders["inputs"].fingerprint
    assert found.problem.encoders["targets"].fingerprint == expected.problem.encoders["targets"].fingerprint
    assert found.record.hparams == expected.record.hparams


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_t5_comes_back_but_for_rounding_of_what_is_scaled(version, tmp_path):
    """Two tensors are scaled by square roots and equal up to 1 unit in the last place; all others are identical."""
    values, tensors = t5.write_model(tmp_path / "model", version)
    loaded = imported(tmp_path)
    written(loaded.translator(), tmp_path / "again/model")
    config, found = read(tmp_path / "again/model")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        if name == "shared.weight" or name.endswith("Attention.q.weight"):
            np.testing.assert_array_max_ulp(found[name], tensor, 1)
        else:
            np.testing.assert_array_equal(found[name], tensor, name)
    assert {name: config[name] for name in values} == values
    assert (tmp_path / "again/model/spiece.model").read_bytes() == (tmp_path / "model/spiece.model").read_bytes()
    tokenizer = json.loads((tmp_path / "again/model/tokenizer_config.json").read_text())
    assert (tokenizer["tokenizer_class"], tokenizer["extra_ids"]) == ("T5Tokenizer", 100)
    again = imported(tmp_path / "again")
    assert again.problem.encoders["inputs"].fingerprint == loaded.problem.encoders["inputs"].fingerprint
    for path, weight in weights_of(loaded.model).items():
        np.testing.assert_array_max_ulp(weights_of(again.model)[path], weight, 2)


def log_probs(translator, source, target):
    """Returns the log-probabilities of our model, (T,)."""
    batch = {"inputs": np.array([source], np.int32), "targets": np.array([target], np.int32)}
    return numpy(translator.model.score_targets(batch).log_probs)[0]


def start_piece(folder):
    """Returns the piece that outputs begin with, and the special pieces, which are not printed."""
    config, special = json.loads((folder / "config.json").read_text()), folder / "special_tokens_map.json"
    ids = json.loads((folder / "vocab.json").read_text())
    pieces = {number: piece for piece, number in ids.items()}
    return pieces[config["decoder_start_token_id"]], json.loads(special.read_text()).values()


@pytest.mark.parametrize("name", FORMS)
def test_a_run_of_ours_is_their_network(name, tmp_path):
    """Compared with the networks in numpy; Marian's has sines first, biases everywhere and an id for the start."""
    theirs, atol = (marian, 2e-4) if name in MARIAN else (t5, 1e-5)
    translator = of_pieces(**FORMS[name])
    written(translator, tmp_path / "model")
    values, tensors = read(tmp_path / "model")
    source, target = [9, 5, 300, 7, 8, 4, 11, 1], [12, 3, 4, 1]
    expected_TV = theirs.Network(values, tensors).log_probs(source, target)
    again = imported(tmp_path).translator()
    ours = log_probs(translator, source, target)
    np.testing.assert_allclose(ours, expected_TV[range(4), target], atol=atol)
    np.testing.assert_allclose(log_probs(again, source, target), ours, atol=atol)
    if theirs is marian:
        assert values["decoder_start_token_id"] == values["vocab_size"] - 1 == PIECES.vocab_size
        assert expected_TV[:, -1].max() < -1e8  # never written
        first, special = start_piece(tmp_path / "model")
        assert first in special  # it is not printed, either
    for text in (*t5.CORPUS, *["zwei  Leerzeichen, 中"] * (theirs is marian)):
        assert again.problem.encoders["inputs"].encode(text) == PIECES.encode(text)


def test_the_search_comes_back_as_far_as_transformers_has_it(tmp_path):
    def searched(**decoding):
        folder = tmp_path / "-".join(map(str, decoding.values()))
        written(of_pieces(decoding=decoding, num_hidden_layers=1), folder / "model")
        return folder, json.loads((folder / "model/generation_config.json").read_text())

    _, greedy = searched(decode_method="greedy")
    _, beam = searched(decode_method="beam")
    assert [(one["num_beams"], one["length_penalty"]) for one in (greedy, beam)] == [(1, 0.0), (3, 0.0)]  # no gnmt
    assert beam.keys().isdisjoint({"min_new_tokens", "no_repeat_ngram_size"})
    decoding = {"min_output_length": 3, "no_repeat_ngram_size": 2}
    folder, bounded = searched(**decoding)
    assert (bounded["min_new_tokens"], bounded["no_repeat_ngram_size"]) == (3, 2)
    hparams = imported(folder).hparams
    assert {name: getattr(hparams, name) for name in decoding} == decoding


def test_marks_of_languages_are_refused(tmp_path):
    problem = marked_letters(LanguageMarks(input_end=(5,)), PIECES)
    with refused("--format=huggingface:", "languages,"):
        written(translator_of(problem), tmp_path / "model")


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"norm_position": "pre"}, "norm_position=pre post);"),
        ({"positions": "learned"}, "positions=learned sinusoidal)"),
        ({"sinusoid_layout": "split"}, "sinusoid_layout=split interleaved, halves)"),
        ({"norm_epsilon": 0.1}, "norm_epsilon=0.1 1e-05,"),
        ({"decoder_layer": "ssru"}, "decoder_layer=ssru self_attention); saved_model onnx"),
        ({"num_kv_heads": 1}, "num_kv_heads=1 0, 2); saved_model ctranslate2 onnx"),
        ({"num_kv_heads": 2, "num_decoder_heads": 4, "hidden_size": 8}, "num_kv_heads=2 0);"),
        ({"target_start": "id"}, "target_start=id zero, pad);"),
        ({"input_end": False}, "input_end=False True); saved_model ctranslate2 onnx"),
        ({"relative_keys": 2}, "relative_keys=2 0); saved_model onnx"),
        ({"shared_embedding": False}, "inputs targets tables"),
        ({**T5, "activation": "gelu", "gated_feed_forward": True}, "activation=gelu gated_feed_forward=True"),
    ],
)
def test_other_networks_are_refused_with_the_formats_that_they_have(changes, about, tmp_path):
    with refused("--format=huggingface:", *about.split()):
        written(of_pieces(num_hidden_layers=1, **changes), tmp_path / "model")


def test_other_models_and_vocabularies_are_refused(tmp_path):
    hparams = LstmHParams(hidden_size=8, num_hidden_layers=1)
    with refused("LstmSeq2seq,", "saved_model", "onnx"):
        written(translator_of(letters(), LstmSeq2seq, hparams), tmp_path / "lstm")
    with refused("token,"):
        written(translator_of(letters()), tmp_path / "words")


def test_weights_that_are_not_finite_are_refused(tmp_path):
    translator = of_pieces(num_hidden_layers=1)
    table = translator.model.target_embedding.table
    table.assign(np.asarray(table) * np.nan)
    with refused("NaN"):
        written(translator, tmp_path / "model")


def test_an_importer_refuses_a_beginning_that_may_be_written(tmp_path):
    written(of_pieces(), tmp_path / "model")
    _, tensors = read(tmp_path / "model")
    tensors["final_logits_bias"][0, -1] = 0.0
    marian.save_file(tensors, tmp_path / "model/model.safetensors")
    with refused("decoder", PIECES.vocab_size):
        imported(tmp_path)


def test_the_model_card_says_what_the_run_says(tmp_path):
    marian.write_model(tmp_path / "model")
    run = imported(tmp_path).run
    run.append_metrics(7, {"dev/bleu": 23.5, "dev/teacher_forced/loss": 1.0, "train/loss": 2.0})
    run.append_metrics(8, {"dev/bleu": 99.0})
    loaded = load(tmp_path / "run")
    origin = {"hparams_set": "transformer_marian", "checkpoint": "step-00000007", "step": 7, "model": "transformer"}
    made = written(loaded.translator(), tmp_path / "card", run=RunDir.open(tmp_path / "run"), origin=origin)
    lines = made.front_matter().splitlines()
    assert lines[0] == lines[-1] == "---"
    fields = {name: json.loads(value) for name, _, value in (line.partition(": ") for line in lines[1:-1])}
    assert fields["tags"] == ["t2t", "marian", "transformer"]
    (result,) = fields["model-index"][0]["results"]
    assert result["metrics"] == [{"type": "bleu", "value": 23.5}]
    text = made.usage()
    assert f"| parameters | {loaded.model.count_params():,} |" in text
    assert "| bleu | 23.5000 |" in text
    assert "99" not in text
    averaged = written(loaded.translator(), tmp_path / "averaged", run=run, origin={**origin, "checkpoint": "averaged"})
    assert "has no scores of this checkpoint" in averaged.usage()
    assert "model-index" not in averaged.front_matter()


def test_what_the_other_library_does_not_answer_is_not_kept(tmp_path):
    translator = of_pieces()
    trial = Trial(translator.encode(LINES), LINES)
    half = f"""echo '{{"loading": ["final_logits_bias"]}}' > {tmp_path}/answers.json"""
    for script, about in (
        ("exit 3", ["3"]),
        ("echo it is no model >&2; exit 1", ["it", "is", "no", "model"]),
        (half, ["final_logits_bias"]),
    ):
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        made = HuggingFaceExport(translator, ExportJob(folder=tmp_path, format="huggingface"), str(python))
        with refused("transformers", *about, by=ParityError):
            made.verify(tmp_path, trial)


@pytest.fixture(scope="module")
def interpreter():
    return transformers_python()


def printed_by_the_card(made, folder):
    """Returns what the code of an export's model card prints in the folder of the export."""
    (folder / "README.md").write_text(made.usage())
    (shown,) = blocks(folder / "README.md")
    command = [made._interpreter, "-c", shown.text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("changes", FORMS.values(), ids=FORMS)
@pytest.mark.slow
def test_transformers_searches_as_ours_and_the_card_prints_it(interpreter, changes, tmp_path):
    translator = of_pieces(**changes, decoding={"decode_method": "greedy"})
    made = written(translator, tmp_path / "model")
    made._interpreter = interpreter
    lines = [*LINES, "a </s> <s> <pad>"]
    found = made.verify(tmp_path / "model", Trial(translator.encode(lines), lines))
    assert found["ids of texts"].identical == found["greedy search"].identical == len(lines)
    assert found["greedy search"].largest_difference < 1e-4
    (row,) = translator.input_rows(translator.encode([text := example_text(translator)]))
    config, search = (
        json.loads((tmp_path / f"model/{name}.json").read_text()) for name in ("config", "generation_config")
    )
    longest = search["max_length"] - 1 - ("forced_eos_token_id" in config)  # without the start and a forced end
    ((best,),) = translator.translate([text], extra_length=longest - len(row))
    assert printed_by_the_card(made, tmp_path / "model") == best.text.strip()


@pytest.mark.slow
def test_weights_that_are_not_the_runs_are_found_out(interpreter, tmp_path):
    translator = of_pieces()
    made = written(translator, tmp_path / "model")
    made._interpreter = interpreter
    table = translator.model.target_embedding.table
    table.assign(np.asarray(table)[::-1])
    with refused("greedy", "4", by=ParityError):
        made.verify(tmp_path / "model", Trial(translator.encode(LINES), LINES))


@pytest.mark.slow
def test_a_printed_start_piece_is_found_out(interpreter, tmp_path):
    translator = of_pieces()
    made = written(translator, folder := tmp_path / "model")
    made._interpreter = interpreter
    for file in (folder / "tokenizer_config.json", folder / "special_tokens_map.json"):
        content = json.loads(file.read_text())
        del content["bos_token"]
        file.write_text(json.dumps(content))
    with refused("greedy", "<s>", by=ParityError):
        made.verify(folder, Trial(translator.encode(LINES), LINES))


@pytest.mark.parametrize("kind", ["marian", "t5"])
@pytest.mark.slow
def test_transformers_searches_as_an_imported_run_and_the_card_runs_as_it_stands(interpreter, kind, tmp_path):
    {"marian": marian, "t5": t5}[kind].write_model(tmp_path / "model")
    translator = imported(tmp_path).translator()
    made = written(translator, tmp_path / "export")
    made._interpreter = interpreter
    found = made.verify(tmp_path / "export", Trial(translator.encode(LINES), LINES))
    assert found["ids of texts"].identical == found["greedy search"].identical == len(LINES)
    assert printed_by_the_card(made, tmp_path / "export")
