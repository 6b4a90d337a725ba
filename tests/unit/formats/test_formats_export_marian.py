"""Exports to Marian: its formulas on the written model, the importer reading it back, what Marian lacks.

Legend: T target length, V vocabulary.
"""

import importlib

import numpy as np
import pytest

from t2t.formats.exporter import ExportJob, Trial
from t2t.formats.exporting import export
from t2t.formats.marian.write import MarianExport
from t2t.formats.parity import ParityError
from t2t.formats.yaml import format_vocabulary, parse_settings, parse_vocabulary
from t2t.runs.importing import import_run
from t2t.runs.loading import load
from t2t.runs.names import request_import
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import LanguageMarks
from t2t.text.imported import BpeEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.words import TokenEncoder
from tests.builders import numpy
from tests.errors import refused
from tests.letters import TEXTS, letters, marked_letters, translator_of
from tests.reference import marian_native as theirs

FORMS = {
    "one table": {},
    "tables of their own, silu": {
        "shared_embedding": False, "shared_embedding_and_softmax_weights": False,
        "activation": "silu", "attention_bias": True, "num_encoder_layers": 2, "num_decoder_layers": 1,
        "decoder_filter_size": 20,
    },
    "rms norms, a table for embeddings, biases of logits, gelu": {
        "norm_type": "rms", "shared_embedding_and_softmax_weights": False, "output_bias": True,
        "activation": "gelu_sigmoid",
    },
    "two tables, no biases, inputs that are cut": {
        "shared_embedding": False, "feed_forward_bias": False, "decoder_filter_size": 20,
        "decoding": {"max_input_length": 4},
    },
}  # fmt: skip


def made(problem, folder, **changes):
    translator = translator_of(problem, **{"sinusoid_layout": "split", "num_hidden_layers": 1} | changes)
    return translator, MarianExport(translator, ExportJob(folder=folder, format="marian"))


def imported(folder, run):
    import_run(request_import(format="marian", model_dir=folder, output_dir=run))
    return load(run)


@pytest.mark.parametrize("changes", FORMS.values(), ids=FORMS)
def test_every_form_is_read_as_it_was(changes, tmp_path):
    """By Marian's formulas in numpy, independent of those with which the export verifies itself."""
    translator, exported = made(letters(), tmp_path, **changes)
    exported.write(tmp_path)
    rows = translator.encode(TEXTS)
    found = exported.verify(tmp_path, Trial(rows, TEXTS))["greedy search"]
    assert found.identical == len(TEXTS)
    assert found.largest_difference < 1e-4
    with np.load(tmp_path / "model.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    values = parse_settings(arrays.pop("special:model.yml").tobytes().rstrip(b"\0").decode())
    source, target = [*rows[0], 1], [4, 3, 5, 1]
    expected_TV = theirs.Network({n: "" if v is None else v for n, v in values.items()}, arrays).log_probs(
        source, target
    )
    batch = {"inputs": np.array([source], np.int32), "targets": np.array([target], np.int32)}
    for model in (translator.model, imported(tmp_path, tmp_path / "run").model):
        logits_TV = numpy(model(batch))[0].astype(np.float64)
        log_probs_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
        np.testing.assert_allclose(log_probs_TV, expected_TV, atol=1e-5)


BPE = BpeEncoder(
    b"#version: 0.2\na b\nab c</w>\n", ["<pad>", "</s>", "<unk>", "abc", "ab@@", "c", "d", 'q"', ":", "é\x85"]
)
VOCABULARIES = {
    "words": (TokenEncoder("abcdefgh"), TokenEncoder(["x", "it's", '"', "a:", "#"])),
    "BPE codes": (BPE, BPE),
    "SentencePiece": (SentencePieceEncoder.build(["a b c d", "hot dog days", "x"] * 9, 300),) * 2,
}


@pytest.mark.parametrize("encoders", VOCABULARIES.values(), ids=VOCABULARIES)
def test_texts_have_the_same_ids_once_the_folder_is_read_back(encoders, tmp_path):
    problem = letters().with_encoders(dict(zip(("inputs", "targets"), encoders, strict=True)))
    _, exported = made(problem, tmp_path)
    exported.write(tmp_path)
    loaded = imported(tmp_path, tmp_path / "run")
    for feature, encoder in problem.encoders.items():
        for text in ("a b c", "abc d ab", "hot dog", "it's a: # x", "never"):
            assert loaded.problem.encoders[feature].encode(text) == encoder.encode(text)
    assert loaded.problem.spec().shared_vocabulary == (encoders[0] is encoders[1])


def test_ctranslate2_reads_it(tmp_path):
    """Its converter uses slightly different sinusoids and another epsilon, which are corrected here."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    converter = importlib.import_module("ctranslate2.converters.marian")
    translator, exported = made(letters(), tmp_path / "served")
    (tmp_path / "served").mkdir()
    exported.write(tmp_path / "served")
    width = translator.model.hparams.hidden_size

    class Read(converter.MarianConverter):
        def _load(self):
            spec = super()._load()
            angles = np.arange(2048)[:, None] * 10000.0 ** (-np.arange(width // 2) / (width // 2 - 1))
            positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
            for side in (spec.encoder, spec.decoder):
                assert side.position_encodings.encodings.shape == (2048, width)
                side.position_encodings.encodings = positions
            spec.config.layer_norm_epsilon = 1e-6
            return spec

    folder = tmp_path / "served"
    Read(str(folder / "model.npz"), [str(folder / "vocab.yml")]).convert(str(tmp_path / "converted"))
    peer = ctranslate2.Translator(str(tmp_path / "converted"), intra_threads=1)
    found = peer.score_batch([text.split() for text in TEXTS[:4]], [["b", "c"], ["a"], ["d", "h"], ["e"]])
    rows, outputs = translator.encode(TEXTS[:4]), [[4, 5], [3], [6, 10], [7]]
    sums = [sum(result.log_probs) for result in found]
    np.testing.assert_allclose(translator.score_ids(rows, outputs), sums, atol=1e-4)


@pytest.mark.parametrize(("decoding", "beams"), [({}, 3), ({"decode_method": "greedy"}, 1)])
def test_the_decoder_has_the_beam_of_the_run_and_may_write_the_unknown_word(decoding, beams, tmp_path):
    _, exported = made(letters(), tmp_path, decoding=decoding)
    exported.write(tmp_path)
    settings = (tmp_path / "decoder.yml").read_text().splitlines()
    assert {f"beam-size: {beams}", "allow-unk: true"} <= set(settings)
    request = request_import(format="marian", model_dir=tmp_path, output_dir=tmp_path / "run")
    assert not import_run(request).run.warnings


def test_an_export_is_kept_with_its_report_or_not_at_all(tmp_path):
    translator, exported = made(letters(), tmp_path / "kept")
    job = ExportJob(folder=tmp_path / "kept", format="marian")
    export(translator, job, TEXTS)
    names = {path.name for path in (tmp_path / "kept").iterdir()}
    assert names == {"model.npz", "decoder.yml", "vocab.yml", "README.md", "t2t_export.json"}
    readme = (tmp_path / "kept/README.md").read_text()
    assert "marian-decoder -c decoder.yml" in readme
    assert "words with a space between each two" in readme
    table = translator.model.target_embedding.table
    table.assign(np.asarray(table)[::-1])
    with refused("greedy", "6", by=ParityError):
        exported.verify(tmp_path / "kept", Trial(translator.encode(TEXTS), TEXTS))


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"sinusoid_layout": "interleaved"}, "sinusoid_layout=interleaved split)"),
        ({"positions": "rotary", "sinusoid_layout": "interleaved"}, "positions=rotary sinusoidal)"),
        ({"norm_position": "pre"}, "norm_position=pre post)"),
        ({"activation": "gelu"}, "activation=gelu relu, silu, gelu_sigmoid)"),
        ({"norm_epsilon": 1e-5}, "norm_epsilon=1e-05 1e-06)"),
        ({"target_start": "id"}, "target_start=id zero)"),
        ({"input_end": False}, "input_end=False True)"),
        ({"num_kv_heads": 1}, "num_kv_heads=1:"),
        ({"relative_keys": 2}, "relative_keys=2 0)"),
        ({"num_decoder_heads": 1}, "num_decoder_heads=1 2)"),
        ({"attention_key_channels": 32}, "hidden_size=8; ctranslate2 onnx"),
        ({"decoder_layer": "ssru"}, "decoder_layer=ssru self_attention)"),
    ],
)
def test_what_marian_lacks_is_refused_by_name(changes, about, tmp_path):
    translator = translator_of(letters(), **{"sinusoid_layout": "split", "num_hidden_layers": 1} | changes)
    with refused("--format=marian:", *about.split()):
        MarianExport(translator, ExportJob(folder=tmp_path, format="marian"))


def test_vocabularies_and_marks_that_marian_lacks_are_refused(tmp_path):
    with refused("byte;", "ctranslate2", "onnx"):
        made(letters().with_encoders(dict.fromkeys(("inputs", "targets"), ByteEncoder())), tmp_path)
    with refused("languages,"):
        made(marked_letters(LanguageMarks(output_start=(6,))), tmp_path)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    translator, exported = made(letters(), tmp_path)
    table = translator.model.target_embedding.table
    table.assign(np.asarray(table) * np.nan)
    with refused("NaN"):
        exported.write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_every_word_comes_back_from_yaml():
    words = ["<pad>", '"', "\\", "a: b", "#", "- x", "yes", "1", "", "\x85", "\u2028x", "é", "中", "😀", "'", "\t", "{"]
    assert parse_vocabulary(format_vocabulary(words)) == {word: number for number, word in enumerate(words)}
