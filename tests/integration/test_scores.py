"""`t2t-bleu`, `t2t-evalb` and `t2t-aer`: the scores of sacreBLEU, EVALB and by hand, for files as they are."""

import gzip
import subprocess
import sys

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from t2t.cli import aer, bleu, evalb
from t2t.files.pharaoh import parse_links
from t2t.metrics.text import moses_bleu
from t2t.registry import METRICS
from tests.in_process import call, refuses
from tests.readme import ROOT
from tests.registrations import registered

HYPOTHESES = ["The cat sat on the mat.", "Er sagte: „Hallo!“", "It costs 3.50 Euros, doesn't it?", ""]
REFERENCES = ["The cat is sitting on the mat.", "Er sagte: „Hallo Welt!“", "It costs 3.50 euros, does it not?", "Yes."]


@pytest.fixture
def score(tmp_path, capsys):
    """Writes two files, runs the command, and returns (status, stdout, stderr)."""

    def run(hypotheses, references, *flags):
        files = {"translation": hypotheses, "reference": references}
        for name, content in files.items():
            content = content if isinstance(content, bytes) else "".join(line + "\n" for line in content).encode()
            (tmp_path / name).write_bytes(content)
        named = [f"--{name}={tmp_path / name}" for name in files]
        status = bleu.main(["t2t-bleu", *named, *flags])
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("flags", "metric", "option"),
    [
        (["--tokenize=intl", "--lowercase"], BLEU, {"tokenize": "intl", "lowercase": True}),
        (["--smooth_method=floor", "--smooth-value=0.5"], BLEU, {"smooth_method": "floor", "smooth_value": 0.5}),
        (["--smooth_method=add-k"], BLEU, {"smooth_method": "add-k"}),
        (["--force"], BLEU, {"force": True}),
        (["--chrf_char_order=3"], CHRF, {"char_order": 3}),
        (["--chrf-word-order=2", "--chrf_lowercase"], CHRF, {"word_order": 2, "lowercase": True}),
        (["--chrf_beta=3"], CHRF, {"beta": 3}),
        (["--chrf_whitespace"], CHRF, {"whitespace": True}),
        (["--chrf_eps_smoothing"], CHRF, {"eps_smoothing": True}),
        (["--ter", "--ter_normalized", "--ter_case_sensitive"], TER, {"normalized": True, "case_sensitive": True}),
    ],
)
def test_every_option_reaches_sacrebleu(score, flags, metric, option):
    _, out, _ = score(HYPOTHESES, REFERENCES, "--chrf", *flags)
    direct = metric(**option)
    scored = direct.corpus_score(HYPOTHESES, [REFERENCES])
    assert f"{scored} | {direct.get_signature()}" in out.splitlines()


def test_several_references_are_scored_as_by_sacrebleu(score, tmp_path):
    more = [["A cat sat on the mat.", "Er sagte: „Hallo!“", "x", "y z"], REFERENCES[::-1]]
    paths = [tmp_path / "reference", *(tmp_path / f"more.{number}" for number in range(2))]
    for path, lines in zip(paths[1:], more, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    score(HYPOTHESES, REFERENCES)
    asked = {"translation": tmp_path / "translation", "reference": ",".join(map(str, paths))}
    expected = []
    for metric in (BLEU(), CHRF(), TER()):
        scored = metric.corpus_score(HYPOTHESES, [REFERENCES, *more])
        expected.append(f"{scored} | {metric.get_signature()}")
    assert call(bleu, "--chrf", "--ter", **asked).out.splitlines() == expected
    found = call(bleu, "--metrics=accuracy_per_sequence", **asked).out.splitlines()
    right = sum(line in sides for line, *sides in zip(HYPOTHESES, REFERENCES, *more, strict=True))
    assert found[1].startswith(f"accuracy_per_sequence = {right / len(HYPOTHESES):.4f}")
    (tmp_path / "of").mkdir()
    asked["translation"].rename(tmp_path / "of/some-7")
    folder = {"translations_dir": tmp_path / "of", "reference": asked["reference"]}
    assert call(bleu, **folder).out == f"some-7: {expected[0]}\n"
    asked["translation"] = tmp_path / "of/some-7"
    refuses(bleu, f"--paired: --reference={asked['reference']}", "--paired=x", **asked)
    paths[2].write_text("a\n")
    refuses(bleu, f"{paths[2]}", **asked)


def test_the_three_ways_in_which_bleu_is_published(score):
    hypotheses = ["Er las im Wörter-Buch 3.5 Seiten, „nicht“ mehr.", "Das Haus ist rot."]
    references = ["Er las im Wörter-Buch 3.5 Seiten, „doch“ mehr.", "Das Haus ist blau."]
    status, out, _ = score(hypotheses, references, "--all_tokenizations")
    assert status == 0
    lines = out.splitlines()
    scores = [(f"sacreBLEU {name}", bleu.bleu(hypotheses, references, tokenize=name)) for name in ("13a", "intl")]
    scores.append(("tokenized, compounds split", moses_bleu(hypotheses, references, "de")))
    assert lines == [f"{label:<28}{score}" for label, score in scores]
    assert len({line.split()[4] for line in lines}) == len(lines) == 3
    _, french, _ = score(hypotheses, references, "--all_tokenizations", "--language=fr", "--lowercase")
    assert french.splitlines()[2] == f"{'tokenized':<28}{moses_bleu(hypotheses, references, 'fr', lowercase=True)}"
    assert french.count("case:lc") == 3


def test_other_translations_are_compared_with_the_first(score, tmp_path):
    lines, good = [f"the number {n} is not {n + 1}" for n in range(40)], tmp_path / "good"
    good.write_text("".join(line + "\n" for line in lines))
    status, out, _ = score([line.replace("is", "was") for line in lines], lines, f"--paired={good}", "--ter")
    assert status == 0
    base, better, base_ter, better_ter = out.splitlines()
    assert base.startswith(f"{tmp_path / 'translation'}: BLEU = ")
    assert ", p = " not in base + base_ter
    assert better.startswith(f"{good}: BLEU = 100.00 (100.00 +- 0.00), p = 0.0010* | nrefs:1|bs:1000|seed:12345")
    assert better_ter.startswith(f"{good}: TER = 0.00 (0.00 +- 0.00), p = ")
    good.write_text("one\n")
    status, _, err = score(lines, lines, f"--paired={good}")
    assert status == 2
    assert f"{good} has 1 lines and {tmp_path / 'reference'} has 40" in err


def test_the_language_chooses_the_tokenizer(score):
    hypotheses, references = ["猫坐在垫子上面。", "今天天气很好。"], ["猫坐在垫子上。", "今天天气真好。"]
    _, usual, _ = score(hypotheses, references)
    assert usual.startswith("BLEU = 0.00 ")
    status, out, _ = score(hypotheses, references, "--language=zh", "--lowercase")
    assert status == 0
    assert out == f"{bleu.bleu(hypotheses, references, tokenize='zh', lowercase=True)}\n"
    _, out, _ = score(hypotheses, references, "--language=zh", "--all_tokenizations")
    assert out.splitlines()[0] == f"{'sacreBLEU zh':<28}{bleu.bleu(hypotheses, references, tokenize='zh')}"


def test_lines_end_at_newlines_only_and_dirty_bytes_are_scored_and_reported(score):
    hypotheses = ["one\u2028two\x85three\x0bfour\rfive", "six seven eight nine"]
    status, out, err = score(hypotheses, hypotheses)
    assert status == 0
    assert out.startswith("BLEU = 100.00")
    assert err == ""
    status, out, err = score(b"a b c d\xff\n", b"a b c d\n")
    assert status == 0
    assert f"BLEU = {BLEU().corpus_score(['a b c d' + chr(0xFFFD)], [['a b c d']]).score:.2f}" in out
    assert "translation: invalid UTF-8 replaced in 1 lines" in err


def test_packed_files_and_standard_input(score, tmp_path, stdin, capsys):
    lines = "".join(line + "\n" for line in REFERENCES).encode()
    status, out, _ = score(gzip.compress(lines), REFERENCES)
    assert (status, out[:13]) == (0, "BLEU = 100.00")
    stdin(lines)
    assert bleu.main(["t2t-bleu", "--translation=-", f"--reference={tmp_path / 'reference'}"]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        (["--metrics=chrf,accuracy"], "'accuracy'"),
        (["--metrics=overlap"], "'overlap' --source"),
        (["--metrics=chrf", "--paired=x"], "--paired --metrics --chrf --ter:"),
        (["--source=x"], "--source: --metrics"),
        (["--tokenize=13b"], "'13b' 13a"),
        (["--chrf_beta=3"], "--chrf_beta --chrf"),
        (["--ter_normalized"], "--ter_normalized --ter"),
        (["--smooth_value=x"], "smooth_value"),
        (["--paired=x", "--all_tokenizations"], "--paired --all_tokenizations"),
        (["--paired=x", "--bleu_variant=uncased"], "--bleu_variant --paired --lowercase"),
        (["--all_tokenizations", "--bleu_variant=both"], "--bleu_variant --all_tokenizations"),
        (["--event_dir=x", "--min_steps=3"], "--min_steps --event_dir --translations"),
        (["--language=zh", "--tokenize=char"], "--language --tokenize"),
        (["--all_tokenizations", "--tokenize=intl", "--force"], "--tokenize --force --all_tokenizations"),
        (["--all_tokenizations", "--language=dee"], "'dee' Moses de"),
    ],
)
def test_mistakes_print_no_score(tmp_path, flags, about):
    files = {name: tmp_path / name for name in ("translation", "reference")}
    for path in files.values():
        path.write_text("a\n")
    with registered(METRICS, "overlap", lambda hypotheses, references, sources: 0.0):
        assert refuses(bleu, about, *flags, **files).out == ""


@pytest.mark.parametrize(("lines", "about"), [("a\nb\nc\n", "translation 3 reference 2"), ("", "bleu")])
def test_files_have_as_many_lines_and_at_least_one(tmp_path, lines, about):
    (tmp_path / "translation").write_text(lines)
    (tmp_path / "reference").write_text(lines and "a\nb\n")
    assert refuses(bleu, about, translation=tmp_path / "translation", reference=tmp_path / "reference").out == ""


# === `t2t-evalb`: EVALB's report for files as they are, and a one-line error for others ===
GOLD = "(TOP (S (NP (NN x)) (VP (VB y) (NP (NN z)))))\n"
TEST = "(TOP (S (NP (NN x) (VB y)) (NP (NN z))))\n"
ROW = "   1    3    0   50.00  66.67     2      4    3      1      3     3   100.00\n"


@pytest.fixture
def trees_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**contents):
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


@pytest.mark.parametrize(
    "arguments",
    ["gold test", "--param_file=COLLINS gold test", "gold test --param-file=own", "-p own gold test",
     "--gold=gold --test=test", "packed test"],
)  # fmt: skip
def test_a_report(trees_in, arguments):
    trees_in(gold=GOLD, test=TEST, packed=gzip.compress(GOLD.encode()), own="DELETE_LABEL TOP\n")
    out, err = call(evalb, *arguments.split())
    assert err == ""
    assert out.startswith("  Sent.  ")
    assert ROW in out
    assert out.endswith("Tagging accuracy          = 100.00\n")
    assert out.count("\n") == 35


def test_without_settings_nothing_is_deleted_and_damaged_text_is_scored_and_counted(trees_in):
    trees_in(gold=GOLD, test=TEST)  # TOP counts: 3 of 5 and of 4
    row = "   1    3    0   60.00  75.00     3      5    4      1      3     3   100.00\n"
    assert row in call(evalb, "-p=none", "gold", "test").out
    trees_in(gold=GOLD.replace("x", "caf\xe9").encode("latin-1"), test=TEST.replace("x", "caf\xe9").encode("latin-1"))
    out, err = call(evalb, "gold", "test")
    assert err == "warning: invalid UTF-8 replaced in 2 lines\n"
    assert ROW in out


def test_errors_of_sentences_and_unequal_numbers_of_lines_go_to_standard_error_in_order(trees_in):
    trees_in(gold=GOLD * 3, test=TEST + "\n" + TEST.replace("y", "w"), short=TEST)
    out, err = call(evalb, "gold", "test")
    assert err == "3 : Words unmatch (y|w)\n"
    assert "Number of Error sentence  =      1\nNumber of Skip  sentence  =      1\n" in out
    out, err = call(evalb, "gold", "short")
    assert err == "2 : Number of lines unmatch (too many lines in gold file)\n"
    assert "Number of sentence        =      1\n" in out
    trees_in(gold=GOLD * 2, test=TEST.replace("y", "w") + TEST)
    command = [sys.executable, "-c", "from t2t.cli.evalb import main; main(['t2t-evalb', 'gold', 'test'])"]
    both = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    lines = both.splitlines()
    assert lines[3] == "1 : Words unmatch (y|w)"
    assert lines[4].startswith("   1    3    1")


def test_too_many_errors_end_the_report_with_status_1(trees_in):
    trees_in(gold=GOLD * 20, test="(A b)\n" * 20)
    out, err = refuses(evalb, "12 MAX_ERROR 10", "gold", "test", status=1)
    assert out.count("\n") == 3 + 11
    assert "Summary" not in out
    assert err.splitlines()[:-1] == [f"{number} : Length unmatch (3|1)" for number in range(1, 13)]


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ("", "GOLD TEST"),
        ("gold", "TEST"),
        ("gold nothing", "nothing"),
        ("nothing gold", "nothing"),
        ("gold .", ".:"),
        ("gold gold gold", "'gold' GOLD TEST"),
        ("gold gold --gold=gold", "'gold' --gold"),
        ("gold gold -p bad", "bad:1: DELTE DELETE_LABEL"),
        ("gold gold -p nothing", "nothing"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_printed(trees_in, arguments, about):
    trees_in(gold=GOLD, bad="DELTE X\n")
    assert refuses(evalb, about, *arguments.split()).out == ""


def test_the_command_starts_without_tensorflow_and_sacrebleu(trees_in):
    trees_in(gold=GOLD, test=TEST)
    code = (
        "import sys; from t2t.cli.evalb import main; main(['t2t-evalb', 'gold', 'test']); "
        "print(*sorted({'tensorflow', 'keras', 'sacrebleu'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("= 100.00\n\n")


# === `t2t-aer` on files, and on the hand-made alignments included in the package ===
PAIRS, LINKS = ROOT / "examples/aligned_ende.tsv", ROOT / "examples/aligned_ende.links"


def test_the_rate_of_a_file(tmp_path, stdin):
    """4 links found, 5 sure links; 3 of the found links are sure, 4 are possible: 1 - (3 + 4) / (4 + 5) = 1 - 7/9."""
    gold, found = tmp_path / "gold.gz", tmp_path / "found"
    gold.write_bytes(gzip.compress(b"0-0 1-1 2?1\n\n0-1 1-0 1-1\n"))
    found.write_text("0-0 2-1\n\n0-1 1-0\n")
    expected = "AER = 0.2222, precision = 1.0000, recall = 0.6000 (4 links found, 5 sure)\n"
    assert call(aer, gold, found) == (expected, "")
    stdin(found.read_bytes())
    assert call(aer, gold=gold, test="-") == (expected, "")


@pytest.mark.parametrize(
    ("gold", "found", "about"),
    [("0-0\n", "0-0\n1-1\n", "gold 1 found 2"), ("0-0\n", "0:0\n", "found 1 '0:0'"), (None, "0-0\n", "gold")],
)
def test_mistakes_of_links(tmp_path, gold, found, about):
    for name, content in (("gold", gold), ("found", found)):
        if content is not None:
            (tmp_path / name).write_text(content)
    assert refuses(aer, about, tmp_path / "gold", tmp_path / "found").out == ""
    refuses(aer, "GOLD TEST")


def test_the_alignments_made_by_hand_link_words_of_their_sentences(tmp_path):
    pairs = [line.split("\t") for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    lines = LINKS.read_text().splitlines()
    assert len(pairs) == len(lines) == 20
    for number, ((source, target), line) in enumerate(zip(pairs, lines, strict=True), start=1):
        sure, possible = parse_links(line, LINKS.name, number)
        assert not set(sure) & set(possible)
        assert {i for i, _ in (*sure, *possible)} == set(range(len(source.split()))), line
        assert {j for _, j in (*sure, *possible)} == set(range(len(target.split()))), line
    sure_alone = [" ".join(link for link in line.split() if "-" in link) for line in lines]
    (tmp_path / "sure").write_text("\n".join(sure_alone) + "\n")
    assert call(aer, LINKS, tmp_path / "sure").out.startswith("AER = 0.0000, precision = 1.0000, recall = 1.0000 (")
