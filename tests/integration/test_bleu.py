"""`t2t-bleu`: the same scores as sacreBLEU, for files as they are."""

import gzip
import math
import subprocess
import sys

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from t2t.cli import bleu
from t2t.metrics.moses import moses_bleu
from t2t.registry import METRICS
from tests.in_process import refuses
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


def test_a_score_by_hand(score):
    # a b a | f g d: 6 of 8 words, 4 of 6 pairs, 2 of 4 triples, none of 2 quadruples, which counts as half a match:
    # (6/8 * 4/6 * 2/4 * 1/4)^(1/4) = 1/2; 8 words against 11: exp(1 - 11/8). Together 34.36.
    status, out, _ = score(["a b a c", "e f g d"], ["a b a z", "y f g d k l m"], "--tokenize=none")
    assert status == 0
    assert out.startswith(f"BLEU = {100 * 0.5 * math.exp(1 - 11 / 8):.2f} 75.0/66.7/50.0/25.0 (BP = 0.687")
    assert " | nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:" in out
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "theirs"),
    [
        ([], []),
        (["--tokenize=intl", "--lowercase"], ["--tokenize", "intl", "--lowercase"]),
        (["--smooth_method=floor", "--smooth-value=0.5"], ["--smooth-method", "floor", "--smooth-value", "0.5"]),
        (["--chrf", "--chrf-word-order=2", "--chrf_lowercase"], ["-m", "bleu", "chrf", "--chrf-word-order", "2",
                                                                  "--chrf-lowercase"]),
    ],
)  # fmt: skip
def test_the_numbers_and_signatures_are_those_of_the_sacrebleu_command(score, tmp_path, flags, theirs):
    status, out, _ = score(HYPOTHESES, REFERENCES, *flags)
    assert status == 0
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "reference"), "-i", str(tmp_path / "translation")]
    plain = [*command, *theirs, "-f", "text", "-w", "2"]
    their_lines = subprocess.run(plain, capture_output=True, text=True, check=True).stdout.splitlines()
    their_lines = [line.strip() for line in their_lines if "|" in line]
    our_lines = out.splitlines()
    assert len(our_lines) == len(their_lines) == 1 + ("--chrf" in flags)
    for ours, line in zip(our_lines, their_lines, strict=True):
        named, value = line.split(" = ", 1)
        name, signature = named.split("|", 1)
        assert ours == f"{name} = {value} | {signature}"


@pytest.mark.parametrize(
    ("flags", "metric", "option"),
    [
        (["--smooth_method=add-k"], BLEU, {"smooth_method": "add-k"}),
        (["--force"], BLEU, {"force": True}),
        (["--chrf_char_order=3"], CHRF, {"char_order": 3}),
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


def test_files_that_are_not_named_or_not_there(tmp_path):
    refuses(bleu, "--translation", reference="x")
    refuses(bleu, "--translation --reference")
    refuses(bleu, f"{tmp_path}/gone", translation=tmp_path / "gone", reference=tmp_path / "gone")
