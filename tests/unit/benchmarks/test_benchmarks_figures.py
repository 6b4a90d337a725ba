"""Figures of benchmarks checked by hand: operations, rows, tables, sentences, text, waits, exports, attention."""

import json
import math
import sys

import numpy as np
import pytest

from benchmarks import parity
from benchmarks.__main__ import main
from benchmarks.attention import (
    END,
    Example,
    attention_between_words,
    most_different,
    most_distant,
    pronoun_and_noun,
    pronoun_heads,
    pronoun_table,
)
from benchmarks.harness.attention_plot import Sentence
from benchmarks.harness.configs import CONFIGS, Config
from benchmarks.harness.corpus import open_corpus, write_synthetic
from benchmarks.harness.flops import update_flops
from benchmarks.harness.load import Load
from benchmarks.harness.rows import best_variants, compared, print_table, row, unavailable, write_json
from benchmarks.harness.sentences import of_equal_lengths
from benchmarks.harness.turns import Turns
from benchmarks.harness.usage import measured
from benchmarks.harness.weights import sinusoids
from benchmarks.parity import FAILED, PASSED, REFUSED, Outcome, table, table_of_run
from benchmarks.soak import growth
from t2t.layers.sinusoids import sinusoids as layer_sinusoids
from t2t.runs.trained_api import load
from t2t.training import cost
from tests.builders import tiny_transformer, tokens_spec
from tests.errors import refused
from tests.readme import ROOT

HELD = """
import mmap, sys, time
own = b"x" * 60_000_000
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    total = sum(mapped[::4096])
    time.sleep(1.5)
"""

SMALL = Config(
    name="small", width=8, inner=12, layers=2, heads=2, dropout=0.0, batch_size=64, warm=1, steps=1, sentences=1
)


def test_operations_are_those_of_the_graph_and_overrides_name_every_size():
    batch = {"inputs": np.ones((3, 7), np.int32), "targets": np.ones((3, 5), np.int32)}
    counted = cost.update_cost(tiny_transformer(tokens_spec(20, 20)), batch).flops
    assert update_flops(SMALL, vocab_size=20, rows=3, source=7, target=5) == counted
    assert CONFIGS["tiny"].overrides() == (
        "hidden_size=128,filter_size=256,num_hidden_layers=4,num_heads=4,layer_prepostprocess_dropout=0.3,"
        "batch_size=4096"
    )


def test_rows_compare_medians_of_all_peers_that_ran():
    one = row("training", "tiny", [10.0, 30.0, 20.0], unit="tokens/s", peer="other", theirs=[5.0, 4.0, 16.0])
    assert (one["ours"], one["theirs"], one["ratio"]) == (20.0, 5.0, 4.0)
    assert one["ours_turns"] == [10.0, 30.0, 20.0]
    assert one["machine"]["cores"] >= 1
    taken = [turns("t2t", 2.0, 4.0), turns("a", 1.0), Turns("b", failure="no wheel"), turns("c", 6.0)]
    for which, expected in (
        (taken, [("a", 3.0, 1.0, 3.0), ("c", 3.0, 6.0, 0.5)]),
        (taken[:1], [(None, 3.0, None, None)]),
    ):
        rows = compared("work", "tiny", which, x_of, unit="s", better="lower")
        assert [(one["peer"], one["ours"], one["theirs"], one["ratio"]) for one in rows] == expected
        assert rows[-1]["versions"] == {name: {name: "1"} for name in ("t2t", rows[-1]["peer"]) if name}


def turns(name, *values):
    return Turns(name, [{"x": value, "load": 0.5, "others": 0.0, "versions": {name: "1"}} for value in values])


def x_of(figures):
    return figures["x"]


def test_the_best_variant_of_each_program():
    taken = [
        turns("t2t", 2.0),
        turns("fast", 1.0, 9.0),
        turns("a", 5.0, 6.0),
        Turns("c", failure="no"),
        turns("b", 7.0),
    ]
    programs = {"t2t": "ours", "fast": "ours", "a": "other", "b": "other", "c": "third"}
    assert [one.name for one in best_variants(taken, programs, x_of)] == ["fast", "b"]
    assert [one.name for one in best_variants(taken, programs, x_of, better="lower")] == ["fast", "a"]


def test_table_and_json(capsys, tmp_path):
    rows = [
        row("training", "tiny", [1000.0, 3000.0], unit="tokens/s", peer="a", theirs=[500.0]),
        unavailable("training", "tiny", "b", "no Python 3.10"),
    ]
    print_table(rows)
    out = capsys.readouterr().out
    assert "| training | tiny | t2t | tokens/s | 1,000 / 2,000 / 3,000 | a | 500 / 500 / 500 | 4 |\n" in out
    assert "\n\n- training, b: not measured: no Python 3.10\n" in out
    write_json(rows, tmp_path / "new" / "rows.json")
    read = json.loads((tmp_path / "new" / "rows.json").read_text())
    assert [(one["work"], one["config"], one["peer"], one["ratio"]) for one in read] == [
        ("training", "tiny", "a", 4.0),
        ("training", "tiny", "b", None),
    ]
    assert read[1]["reason"] == "no Python 3.10"


def test_batches_of_one_length():
    sentences = [[5] * length for length in (3, 2, 3, 9, 2, 3, 3, 2, 4, 4)]
    chosen = of_equal_lengths(sentences, count=4, batch=2)
    assert [len(ids) for ids in chosen] == [2, 2, 3, 3]
    with refused("--sentences=10", "--batch=2", 4):
        of_equal_lengths(sentences, count=10, batch=2)


@pytest.mark.parametrize("layout", ["interleaved", "split"])
def test_positions_are_those_of_the_model(layout):
    np.testing.assert_allclose(sinusoids(50, 8, layout), layer_sinusoids(50, 8, layout), atol=1e-6)


@pytest.mark.slow
def test_synthetic_text_is_the_same_every_time(tmp_path):
    first = open_corpus(None, tmp_path / "a", 300)
    second = open_corpus(None, tmp_path / "b", 300)
    assert first.name == second.name
    for split, paths in first.files.items():
        lines = [path.read_text().splitlines() for path in paths]
        assert lines == [path.read_text().splitlines() for path in second.files[split]]
        assert len(lines[0]) == len(lines[1]) == 300
        assert all(len(a.split()) == len(b.split()) for a, b in zip(*lines, strict=True))
    assert len(np.unique(first.files["train"][0].read_text().split())) > 1000


def test_missing_files_are_all_named_and_text_of_a_folder_is_repeated_to_a_size(tmp_path):
    (tmp_path / "train.en").write_text("a\n")
    with refused(*(f"{stem}.{side}" for stem in ("val", "test_2016_flickr") for side in ("en", "de")), "train.de"):
        open_corpus(tmp_path, tmp_path / "home")
    for stem in ("train", "val", "test_2016_flickr"):
        (tmp_path / f"{stem}.en").write_text("a\nb\nc\n")
        (tmp_path / f"{stem}.de").write_text("x\ny\nz\n")
    corpus = open_corpus(tmp_path, tmp_path / "home", 5)
    assert [path.read_text() for path in corpus.files["train"]] == ["a\nb\nc\na\nb\n", "x\ny\nz\nx\ny\n"]
    assert corpus.files["dev"] == (tmp_path / "val.en", tmp_path / "val.de")


@pytest.mark.slow
def test_synthetic_text_is_written_a_block_at_a_time_and_may_have_words_of_its_own(tmp_path):
    files = write_synthetic(tmp_path / "own", 100, own_words=True, block=30)
    sides = [path.read_text().splitlines() for path in files["train"]]
    assert [len(side) for side in sides] == [100, 100]
    assert [line.split()[-1] for line in sides[0]] == [f"train{number}" for number in range(100)]
    assert not list((tmp_path / "own").glob("*.part"))


def test_growth_is_the_slope_of_the_later_half_and_percentiles_are_of_responses_with_a_status():
    held = [{"update": 100 * n, "resident_mb": 500.0 + 0.2 * n + 90 * (n < 4)} for n in range(10)]
    assert growth(held) == pytest.approx(2.0)
    load = Load(1.0, waits={200: [0.4, 0.1, 0.3, 0.2], 429: [0.05], 500: []})
    assert load.percentile(50) == pytest.approx(300)
    assert load.percentile(99) == pytest.approx(400)
    assert load.percentile(99, 429) == pytest.approx(50)
    assert all(math.isnan(load.percentile(50, status)) for status in (0, 500)), "no such response"


def test_memory_of_a_process_and_of_the_files_that_it_maps(tmp_path):
    (tmp_path / "mapped").write_bytes(bytes(40_000_000))
    usage = measured([sys.executable, "-c", HELD, str(tmp_path / "mapped")], tmp_path / "log")
    assert usage.seconds > 1.5
    assert 60 < usage.own_mb < 90
    assert 40 < usage.mapped_mb < 60
    assert 100 < usage.resident_mb < 130


# === The table of models and formats of exports ===
def test_a_row_has_each_format_reasons_stand_below_and_sizes_and_times_in_the_table_of_a_run():
    formats = ("saved_model", "ctranslate2", "onnx")
    verdicts = {"a": [PASSED, REFUSED, PASSED], "b": [FAILED, REFUSED, PASSED]}
    said = {PASSED: "", REFUSED: "why", FAILED: "bad"}
    found = table(
        [
            Outcome(model, "text to text", format, verdict, said[verdict])
            for model, of_model in verdicts.items()
            for format, verdict in zip(formats, of_model, strict=True)
        ]
    )
    assert found == [
        "| model | problem | saved_model | ctranslate2 | onnx |",
        "|---|---|---|---|---|",
        "| `a` | text to text | yes | no | yes |",
        "| `b` | text to text | FAILED | no | yes |",
        "",
        "- a (text to text), b (text to text): why",
        "- b (text to text): bad",
    ]
    found = table_of_run([Outcome("", "", "a", PASSED, "same", 2.04, 3.0), Outcome("", "", "b", REFUSED, "why")])
    assert found[2:] == ["| a | same | 2.0 | 3.0 |", "| b | why |  |  |"]


@pytest.mark.slow
def test_the_models_of_a_list_are_tried(capsys):
    assert parity.main(["--models=transformer_encoder", "--lines=5", "--formats=saved_model,ctranslate2,onnx"]) == 0
    printed = capsys.readouterr().out
    assert "| `transformer_encoder` | text to class | yes | no | yes |" in printed
    assert "5 of 5 outputs are those of the run" in printed


# === Figures of attention: the words and heads that the rules choose, and a drawing of a trained run ===
GOLDEN_RUN = ROOT / "tests/golden/runs/0.1.0/run"


def sentence(text, layers=2, heads=3, **weights):
    """Every word attends to itself, except where `weights` says, as layer_head_query_key=weight, e.g. a0_1_2_0=0.4."""
    words = (*text.split(), END)
    own = np.tile(np.eye(len(words)), (layers, heads, 1, 1))
    for place, weight in weights.items():
        layer, head, query, key = map(int, place[1:].split("_"))
        own[layer, head, query, query] -= weight
        own[layer, head, query, key] += weight
    return Sentence(words, own)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A man lost his hat.", (3, 1)),
        ("The girl, and her dog", (3, 1)),
        ("A man lost her hat.", None),
        ("A man and a woman lost his hat.", None),
        ("Lost his hat, a man", None),
        ("A man lost it.", None),
    ],
)
def test_pronouns_with_one_noun_before_them_are_found(text, found):
    assert pronoun_and_noun(text.split()) == found


def test_the_word_with_most_weight_far_away_and_heads_that_differ_most_are_found():
    near = sentence("a b c d e f g", a0_0_0_4=0.9)
    far = sentence("a b c d e f g", a1_2_6_1=0.3, a1_1_6_0=0.3, a0_0_0_5=0.5)
    to_end = sentence("a b c d e f g", a0_0_0_7=0.9)
    assert most_distant([near, far, to_end]) == (far, 1, 6)
    one = sentence("a b c", a0_1_2_1=0.5, a1_2_0_2=0.9, a1_2_1_0=0.9)
    assert most_different([one, sentence("a b", a0_0_1_0=0.1)]) == ((0, 1), (1, 2))


def test_heads_are_chosen_by_their_mean_weight_from_pronoun_to_noun():
    both = [
        Example(sentence("man lost his hat", a1_0_2_0=0.8, a0_2_2_0=0.3, a1_0_3_0=0.4), 2, 0),
        Example(sentence("man sees his hat", a1_0_2_0=0.2, a0_2_2_0=0.3, a0_1_2_0=0.4, a1_0_1_0=0.6), 2, 0),
    ]
    assert pronoun_heads(both) == [(1, 0), (0, 2)]
    assert pronoun_table(both, most=2)[2:] == [
        "| layer 2, head 1 | 0.500 | 0.250 |",  # others: 0, 0.4, 0.6 and 0
        "| layer 1, head 3 | 0.300 | 0.000 |",
        "| 1 / (number of words) | 0.200 | 0.200 |",
    ]


def test_weights_between_words_are_means_over_pieces_that_attend_and_sums_over_those_attended_to():
    translator = load(GOLDEN_RUN)
    found = attention_between_words(translator, "12 3")
    weights_LHPP = translator.attend("12 3", "").maps["encoder"].weights
    assert translator.attend("12 3", "").maps["encoder"].queries == ("▁", "1", "2", "▁", "3", "</s>")
    assert found.words == ("12", "3", END)
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1, rtol=1e-5)
    # white space belongs to the word before it
    np.testing.assert_allclose(found.weights[:, :, 0, 1], weights_LHPP[:, :, :4, 4].mean(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(found.weights[:, :, 1, 0], weights_LHPP[:, :, 4, :4].sum(axis=-1), rtol=1e-5)


def test_a_run_is_drawn(tmp_path, capsys):
    (tmp_path / "text").write_text("a man and his\n\na dog its\n1 2 3 4 5 6\n")
    flags = [f"--run={GOLDEN_RUN}", f"--file={tmp_path / 'text'}", f"--plot={tmp_path / 'figures.svg'}"]
    assert main(["attention", *flags]) == 0
    assert "| mean weight on the noun, 2 sentences | from the pronoun |" in capsys.readouterr().out
    drawn = (tmp_path / "figures.svg").read_text()
    assert all(f"<!-- {word} -->" in drawn for word in ("man", "his"))
    (tmp_path / "text").write_text("a man\n")
    assert main(["attention", *flags]) == 2
    assert "no sentence has his, her, its after a noun that it can mean" in capsys.readouterr().err
