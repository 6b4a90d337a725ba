"""ONNX and LiteRT graphs give the same outputs as the run; models that cannot be converted are refused."""

import gzip
import json
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t.formats import graph_script, vocabularies
from t2t.formats.exporter import ExportJob, Trial
from t2t.formats.exporting import make_inputs
from t2t.formats.graph_script import Model
from t2t.formats.parity import FLOAT32, PROMISES, ParityError
from t2t.hparams.lstm import LstmAttentionHParams, LstmHParams
from t2t.inference.rows import cut_rows
from t2t.models.classics.byte_net import ByteNet, ByteNetHParams
from t2t.models.classics.slice_net import SliceNet, SliceNetHParams
from t2t.models.lstm import LstmSeq2seq, LstmSeq2seqAttention
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.problems.parsing import ParsingTrees
from t2t.registry import EXPORTERS
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import LanguageCodes
from t2t.text.imported import BpeEncoder, PieceTableEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.vocabulary_files import save_encoders
from t2t.text.words import TokenEncoder, WordListEncoder
from tests.builders import tokens_spec
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, letters_alone, moods, translator_of
from tests.readme import blocks, execute

SMALL = {"hidden_size": 8, "num_hidden_layers": 1}
MODERN = {
    "positions": "rotary", "num_kv_heads": 1, "gated_feed_forward": True, "norm_type": "rms", "norm_position": "pre",
}  # fmt: skip
T5 = {
    "positions": "relative_bias", "relative_bias_buckets": 8, "relative_bias_max_distance": 5, "target_start": "pad",
    "feed_forward_bias": False, "activation": "gelu_tanh",
}  # fmt: skip
MODELS = {
    "a Transformer": lambda: translator_of(letters(), norm_position="pre", positions="learned"),
    "GELU": lambda: translator_of(letters(), activation="gelu"),
    "a decoder of other sizes": lambda: translator_of(letters(), num_decoder_heads=1, decoder_filter_size=20),
    "a decoder of SSRU": lambda: translator_of(letters(), decoder_layer="ssru"),
    "a language model": lambda: translator_of(letters_alone()),
    "a window, vectors of each head": lambda: translator_of(letters(), self_attention_window=4, relative_keys=2),
    "one head": lambda: translator_of(letters(), num_heads=1),
    "relative positions": lambda: translator_of(letters(), positions="relative", max_relative_position=2),
    "positions of words": lambda: translator_of(
        letters(),
        spec=tokens_spec(WORDS.vocab_size, WORDS.vocab_size, tells_words=True),
        positions="words",
        read_next_word=True,
    ),
    "T5": lambda: translator_of(letters(), **T5),
    "rotary positions, shared keys, gates, other norms": lambda: translator_of(letters(), **MODERN),
    "LSTM and attention": lambda: translator_of(letters(), LstmSeq2seqAttention, LstmAttentionHParams(**SMALL)),
    "ByteNet": lambda: translator_of(letters(), ByteNet, ByteNetHParams(**SMALL | {"num_hidden_layers": 3})),
    "SliceNet": lambda: translator_of(letters(), SliceNet, SliceNetHParams(**SMALL)),
}
FORMATS = ("onnx", "litert")


def exported(translator, folder, format="onnx", n_best=1, quantization=FLOAT32):
    if format == "litert":
        pytest.importorskip("ai_edge_litert")
    job = ExportJob(folder=folder, format=format, n_best=n_best, quantization=quantization)
    made = EXPORTERS.get(format)(translator, job)
    made.write(folder)
    return made


def written(translator, folder, *asked, **more):
    return exported(translator, folder, *asked, **more), Trial(translator.encode(TEXTS), TEXTS)


@pytest.fixture(scope="module", params=["onnx", pytest.param("litert", marks=pytest.mark.slow)])
def recurrent(request, tmp_path_factory):
    """The export of a recurrent model, its trial, and its folder."""
    folder = tmp_path_factory.mktemp("recurrent")
    return *written(translator_of(letters(), LstmSeq2seq, LstmHParams(**SMALL)), folder, request.param), folder


def test_a_recurrent_model_writes_as_the_run(recurrent):
    check_steps(*recurrent)


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"longest_input": 2}, "ids"),
        ({"vocabularies": {"inputs": "vocab.targets.token.tokens"}}, "ids"),
        ({"vocabularies": {"targets": "vocab.targets.token.tokens"}}, "greedy"),
    ],
)
def test_what_the_script_reads_and_writes_is_compared(recurrent, tmp_path, changes, about):
    made, trial, folder = recurrent
    shutil.copytree(folder, copy := tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    for name, value in changes.items():
        config[name] = config[name] | value if isinstance(value, dict) else value
    (copy / "config.json").write_text(json.dumps(config))
    save_encoders(copy, {"targets": TokenEncoder("hgfedcba")})
    with refused(about, by=ParityError):
        made.verify(copy, trial)


def step_cases():
    """Every model in every format; most are exhaustive tests."""
    soon = {
        "onnx": (
            "a Transformer",
            "a window, vectors of each head",
            "relative positions",
            "positions of words",
            "T5",
            "LSTM and attention",
        ),
        "litert": ("a Transformer", "relative positions", "LSTM and attention"),
    }
    for name, build in MODELS.items():
        for format, names in soon.items():
            marks = () if name in names else pytest.mark.exhaustive
            yield pytest.param(build, format, id=f"{name}-{format}", marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize(("build", "format"), [*step_cases()])
def test_steps_search_as_the_run(build, format, tmp_path):
    check_steps(*written(build(), tmp_path, format), tmp_path)


def check_steps(made, trial, folder):
    assert made.verify(folder, trial)["greedy search"].identical == len(TEXTS)
    graphs = json.loads((folder / "graphs.json").read_text())
    assert graphs["begin"]["inputs"] == ["inputs", *(["length"] if made.job.format == "litert" else [])]
    assert graphs["step"]["inputs"][:2] == ["ids", "position"]
    script, translator = Model(folder), made.translator
    expected = translator.translate(TEXTS, decode_method="greedy")
    assert [script.translate(text) for text in TEXTS] == [found.text for (found,) in expected]
    assert script.translate(" ") == "" or not translator.has_inputs


@pytest.mark.slow
def test_the_script_reads_white_space_as_the_run(tmp_path):
    pieces = SentencePieceEncoder.build(["the dog runs"] * 3, 300)
    problem = ParsingTrees().with_encoders({"inputs": pieces, "targets": TokenEncoder(["NP", "/NP", "NN", "S", "/S"])})
    translator = translator_of(problem, positions="words", read_next_word=True, num_hidden_layers=1)
    exported(translator, tmp_path)
    script, spaced = Model(tmp_path), ["the dog", " the \t\u3000dog\n"]
    expected = translator.translate(spaced, decode_method="greedy", constrain_output=False)
    assert [script.translate(text) for text in spaced] == [problem.decode_target(best.ids) for (best,) in expected]
    assert script.translate(spaced[0]) == script.translate(spaced[1])


@pytest.mark.slow
@pytest.mark.parametrize("quantization", ["float16", "int8"])
def test_rounded_weights_are_smaller_and_score_about_the_same(quantization, tmp_path):
    translator = translator_of(letters(), hidden_size=64, filter_size=256, norm_position="pre")
    exact, rounded = tmp_path / FLOAT32, tmp_path / quantization
    for folder in (exact, rounded):
        folder.mkdir()
        made, trial = written(translator, folder, "litert", quantization=folder.name)
    sizes = [(folder / "model.tflite").stat().st_size for folder in (exact, rounded)]
    assert sizes[1] < sizes[0] * {"float16": 0.65, "int8": 0.45}[quantization]
    expected = [found for (found,) in translator.translate(TEXTS, decode_method="greedy", alpha=0.0)]
    rows, promise = cut_rows(translator.model, trial.rows, translator.hparams), PROMISES[quantization].score_difference
    for folder, most in ((exact, 1e-4), (rounded, promise)):
        model = Model(folder)
        scores = [model.score(row, found.ids) for row, found in zip(rows, expected, strict=True)]
        pairs = zip(expected, scores, strict=True)
        assert max(abs(found.log_prob - score) / len(found.ids) for found, score in pairs) <= most
    compared = made.verify(rounded, trial)
    assert compared["log-probability of the run's output of each line, nats per token"].largest_difference <= promise


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_classes_are_those_of_the_run(format, tmp_path):
    translator = translator_of(moods(), TransformerEncoder)
    made, trial = written(translator, tmp_path, format, n_best=3)
    assert made.verify(tmp_path, trial)["answers"].identical == len(TEXTS)
    assert [Model(tmp_path).translate(text) for text in TEXTS] == [
        found.text for (found,) in translator.translate(TEXTS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_images_are_answered_as_the_readme_shows(format, tmp_path):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    image = FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1))
    translator = translator_of(letters(), spec=ProblemSpec(name="l", features={"inputs": image, "targets": targets}))
    made = exported(translator, tmp_path, format)
    made.verify(tmp_path, Trial(make_inputs(translator, 2), None))
    readme = tmp_path / "README.md"
    readme.write_text(made.usage())
    (shown,) = blocks(readme)
    done = execute(shown.language, shown.text, tmp_path)
    assert done.returncode == 0, done.stderr
    ((found,),) = translator.translate_ids([np.zeros((3, 4, 1), np.uint8)], decode_method="greedy", alpha=0.0)
    assert done.stdout.startswith(f"{found.ids} ")
    with refused("arrays", by=ValueError):
        Model(tmp_path).translate("a")


@pytest.mark.exhaustive
def test_weights_that_are_not_the_runs_are_found_out(tmp_path):
    translator = translator_of(letters())
    made, trial = written(translator, tmp_path)
    table = translator.model.target_embedding.table
    table.assign(table.numpy()[::-1])
    with refused("greedy", "6", by=ParityError):
        made.verify(tmp_path, trial)


class Odd(TransformerEncoder):
    """A model with an operation that neither converter knows."""

    def call(self, features, seed=None):
        logits = super().call(features, seed=seed)
        return tf.math.betainc(tf.abs(logits), tf.abs(logits), tf.sigmoid(logits))


@pytest.mark.parametrize(
    ("format", "about"),
    [("onnx", "model.onnx saved_model"), pytest.param("litert", "saved_model onnx", marks=pytest.mark.slow)],
)
def test_operations_that_a_runtime_lacks_are_named_before_anything_is_kept(format, about, tmp_path):
    with refused(f"--format={format}:", "Odd", "Betainc", *about.split()):
        written(translator_of(moods(), Odd, num_hidden_layers=1), tmp_path, format)
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
def test_the_script_refuses_arguments():
    ended = subprocess.run([sys.executable, graph_script.__file__, "lines"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("translate.py: argument 'lines': it takes none")


ALONE = """
import runpy, sys
for name in ("t2t", "tensorflow", "keras", "msgspec", "jax"):
    sys.modules[name] = None  # as if it were not installed
runpy.run_path("translate.py", run_name="__main__")
"""


def by_the_script(errors):
    """Returns the lines of standard error without those by which a runtime says how it computes."""
    return [line for line in errors.splitlines() if not line.startswith(b"INFO: Created TensorFlow Lite")]


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe that nobody reads")
def test_the_script_needs_no_library_no_locale_and_nobody_who_reads_all_of_it(recurrent):
    made, _, folder = recurrent
    lines, expected = ["a b c", " ", "\u00e9 d", "h\0g"], []
    for line in lines:
        ((best,),) = made.translator.translate([line.replace("\0", "")], decode_method="greedy")
        expected.append(best.text)
    given = b"\xef\xbb\xbf" + "\r\n".join([*lines, ""]).encode()
    alone = {"cwd": folder, "env": {"PATH": "", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}}
    command = [sys.executable, "-I", "-c", ALONE]
    for content in (given, gzip.compress(given)):
        done = subprocess.run(command, input=content, capture_output=True, check=True, **alone)
        assert (done.stdout.decode().split("\n"), by_the_script(done.stderr)) == ([*expected, ""], [])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **alone
    ) as one:
        one.stdin.write(b"a b\n")
        one.stdin.flush()
        assert one.stdout.readline()
        one.stdout.close()
        assert by_the_script(one.communicate(b"a b\n" * 9)[1]) == []
        assert one.returncode == -signal.SIGPIPE
    done = subprocess.run(command, input="a".encode("utf-16"), capture_output=True, **alone)
    assert (done.returncode, len(by_the_script(done.stderr))) == (1, 1)


PIECES = SentencePieceEncoder.build(["the dog runs <2de>", "caf\u00e9 <2fr> \u2581"] * 3, 300, ["<2de>", "<2fr>"])
TABLE = ["<pad>", "</s>", "<unk>", "\u2581the", "\u2581dog", "s", ">>de<<", "<extra_id_1>", "\u2581", "d", "de_DE"]
WORD_LIST = b"<pad>\n<EOS>\nthe\n dog \nUNK\nthe\n"
UNQUOTED = "\n".join(
    ["<pad>", "<EOS>", "th", "e_", "the_", "the", "s\u20ac", "'d'", "'", *"_\\\\u;0123456789"]
).encode()
MERGES = "\n".join(["t h", "th e", "e </w>", "the </w>", "d o", "do g", "do g</w>", "\u00e9 </w>", "the </w>"]).encode()
BPE = ["<pad>", "</s>", "<unk>", "the", "dog", "th@@", "do@@", "s", "a", "</w>", "g@@", "\u00e9", "\u00a0"]
ENCODERS = {
    "word list": (WordListEncoder.from_bytes(WORD_LIST), [3]),
    "subwords": (SubwordEncoder.build(["the dog runs_ \u0109\n12 <2de>", "\u4e2d\u4e2d \u0663"] * 3, 60), [9]),
    "subwords without quotes": (SubwordEncoder.from_bytes(UNQUOTED), []),
    "bpe, the end of a word apart": (BpeEncoder(MERGES, BPE), [4]),
    "bpe": (BpeEncoder(b"#version: 0.2\r\n" + MERGES.replace(b" </w>", b"</w> x"), BPE), []),
    "bpe with counts": (BpeEncoder(MERGES.replace(b" </w>", b"</w> t").replace(b"\n", b" 7\n") + b" 7", BPE, "~"), []),
    "words": (TokenEncoder(["the", "dog", "caf\u00e9"]), [3]),
    "bytes": (ByteEncoder(), []),
    "pieces": (PIECES, [PIECES.encode("<2de>")[0]]),
    "a table": (PieceTableEncoder(PIECES.to_bytes(), TABLE), [4]),
    "a table with sentinels": (PieceTableEncoder(PIECES.to_bytes(), TABLE, sentinels=True), []),
    "a table with languages": (PieceTableEncoder(PIECES.to_bytes(), TABLE, languages=LanguageCodes({"de_DE": 10})), []),
}


def odd_texts():
    """Yields texts of random characters, most of them such as vocabularies treat in a special way."""
    rng = random.Random(5)
    often = "the dogs\u00e9 \t\r\v\u00a0\u3000\u2028_\\u;0123456789'\"<>@/w\u2581\u241b\u4e2d\u0663\u0301\u20ac"
    for _ in range(300):
        characters = (rng.choice(often) if rng.random() < 0.9 else chr(rng.randrange(1, 0xD800)) for _ in range(30))
        yield "".join(characters) + chr(rng.randrange(0xE000, 0x110000)) * rng.randint(0, 1)


@pytest.mark.parametrize(("encoder", "unspelled"), ENCODERS.values(), ids=ENCODERS)
def test_exported_vocabularies_are_read_as_by_the_library(tmp_path, encoder, unspelled):
    (record,) = save_encoders(tmp_path, {"inputs": encoder}).values()
    theirs, ours = vocabularies.read_vocabulary(tmp_path / record.file, unspelled), encoder.reserving(unspelled)
    for text in (
        *odd_texts(),
        *("the dog runs", "", "  two  spaces ", "caf\u00e9 \u4e2d \u2581 \u241b1", "a <2de> b", "<2fr><unk></s>"),
        *(">>de<< the", ">>xx<<the", "dog >>de<<", "<extra_id_1> s <extra_id_1>", "<extra_id_2>", "de_DE the"),
    ):
        ids = ours.encode(text)
        assert theirs.encode(text) == ids, text
        assert theirs.decode(ids) == ours.decode(ids)
    for _ in range(200):
        written = random.choices(range(2, ours.vocab_size), k=9)
        assert theirs.decode(written) == ours.decode(written), written


def test_a_list_without_unknown_words_names_the_one_that_it_lacks(tmp_path):
    (tmp_path / "vocab.inputs.word_list.txt").write_bytes(b"<pad>\n<EOS>\nthe\n")
    with refused("dog", by=ValueError):
        vocabularies.read_vocabulary(tmp_path / "vocab.inputs.word_list.txt").encode("the dog")


def test_a_graph_that_fails_is_no_answer(recurrent, tmp_path):
    made, trial, folder = recurrent
    shutil.copytree(folder, tmp_path / "damaged")
    graphs = json.loads((folder / "graphs.json").read_text())
    graphs["begin"]["outputs"][0] = "nothing"
    (tmp_path / "damaged/graphs.json").write_text(json.dumps(graphs))
    with refused("nothing", by=ParityError):
        made.verify(tmp_path / "damaged", trial)
