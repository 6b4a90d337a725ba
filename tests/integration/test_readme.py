"""The README and the first page are correct: commands run, the table is complete, code is up to date."""

import ast
import gzip
import importlib.metadata
import io
import json
import os
import random
import re
import shutil
import tokenize
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import t2t
from t2t.features.audio import read_audio, wav_file
from t2t.features.treebank_trees import parse_tree
from tests.integration.test_workers import free_addresses
from tests.raw_files import idx
from tests.readme import INDEX, PHRASES, ROOT, block, blocks, shortened, succeed

ENGLISH = ("a", "man", "woman", "dog", "runs", "sits", "in", "the", "red", "house", "street", "with", "two")
GERMAN = ("ein", "Mann", "Frau", "Hund", "rennt", "sitzt", "in", "das", "rote", "Haus", "Straße", "mit", "zwei")


@pytest.fixture
def folder(tmp_path):
    """A folder like a checkout, with small corpora under the names that the commands use."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "raw").mkdir()
    for stem, lines in (("train", 300), ("val", 12), ("test_2016_flickr", 9)):
        write_corpus(tmp_path / "raw" / f"{stem}.en.gz", tmp_path / "raw" / f"{stem}.de.gz", lines)
    for stem, lines in (("train", 300), ("more", 200), ("dev", 12)):
        write_corpus(tmp_path / f"{stem}.src", tmp_path / f"{stem}.tgt", lines)
    return tmp_path


def write_corpus(source, target, lines):
    rng = random.Random(str(source.name))
    rows = [rng.choices(range(len(ENGLISH)), k=rng.randint(3, 12)) for _ in range(lines)]
    for path, words in ((source, ENGLISH), (target, GERMAN)):
        text = "".join(" ".join(words[i] for i in row) + ".\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def run(folder, name, short=False, is_warm=None):
    """Executes a named block; returns its standard output."""
    language = next(one.language for one in blocks() if (one.kind, one.name) == ("run", name))
    text = shortened(block(name)) if short else block(name)
    for port in set(re.findall(r"--port=(\d+)", text)):  # another program may have that of the page
        text = text.replace(port, free_addresses(1)[0].rpartition(":")[2])
    return succeed(text, folder, language, is_warm).stdout


def lines_of(path):
    """Returns the lines of a file; untrained models also write characters that `splitlines` takes for ends of lines."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return text.decode().removesuffix("\n").split("\n")


# === The commands ===
#
# Long trainings are replaced by six updates of a model of width 16 on made-up examples.


def test_every_marked_block_is_run_somewhere():
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py")))
    checks = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for one in (one for one in blocks() if one.kind == "run"):
        assert f'"{one.name}"' in tests or f"tests/readme.py {one.name} " in checks, one.name


def test_listing(folder):
    listed = run(folder, "listing", is_warm=False)
    for name in ("translate_ende_numbers", "transformer_base", "wmt_ende_tokens_32k", "hidden_size=512"):
        assert name in listed


def answers_in(printed):
    """Yields the JSON objects and plain texts of an output in order."""
    while printed:
        if printed.startswith("{"):
            answer, end = json.JSONDecoder().raw_decode(printed)
        else:
            answer = re.match("[^{]*", printed)[0]
            end = len(answer)
        yield answer
        printed = printed[end:]


@pytest.mark.slow  # that a process answers every request of the page
def test_serve(folder):
    printed = run(folder, "serve")
    translator = t2t.load("zoo:ende_numbers")
    best = translator.translate(["twenty-one cats"])[0][0].text
    answers, events = printed.split("data: ", 1)
    health, plain, *lines, settings, rows, chat = answers_in(answers)
    assert health == {"status": "ok", "models": ["ende"]}
    assert plain["text"] == "".join(lines) == best
    three = translator.translate(["twenty-one cats"], 3, beam_size=8)[0]
    assert [one["text"] for one in settings["translations"][0]["outputs"]] == [one.text for one in three]
    assert rows["predictions"][0]["outputs"] == [best]
    assert chat["choices"][0]["message"]["content"] == best
    stream, reloaded = events.strip().rsplit("\n\n", 1)
    assert json.loads(reloaded) == {"model": "ende", "step": 1300, "reloaded": False}
    *pieces, whole = map(json.loads, stream.split("\n\ndata: "))
    assert whole == plain
    assert "".join(piece["delta"] for piece in pieces) == best


@pytest.mark.slow  # that constraints hold on the command line and in Python
def test_constrain(folder):
    run(folder, "constrain")
    first, second = lines_of(folder / "cats.de")
    assert "zwei" in first
    assert "Katzen" not in first
    assert second in ("eine Katze", "zwei Katzen")
    run(folder, "constrain_python")


@pytest.mark.slow  # that the model of the package answers as a newcomer reads first; test_zoo.py has the model
def test_zoo(folder):
    assert run(folder, "zoo").splitlines() == PHRASES
    assert run(folder, "zoo-python").splitlines() == [PHRASES[0], "es kostet fünf Euro"]


def test_studio(folder):
    health, runs = answers_in(run(folder, "studio", is_warm=False))
    assert health == {"status": "ok", "models": []}
    assert [(one["run"], one["state"], one["step"]) for one in runs["runs"]] == [("ende_numbers", "finished", 1300)]


@pytest.mark.slow  # that the blocks on figures and alignments run
def test_look_and_align(folder):
    assert "train/loss" in run(folder, "look")
    assert '"source": "twenty-one cats"' in (folder / "look.html").read_text(encoding="utf-8")
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    first, rate = run(folder, "align").splitlines()
    assert re.fullmatch(r"(\d-\d+( \d-\d+)*)?", first)
    assert len(lines_of(folder / "found.links")) == 20
    assert re.match(r"AER = 0\.\d{4}, precision = ", rate)


@pytest.mark.slow  # that the blocks on a corpus and its student run
def test_multi30k(folder):
    printed = run(folder, "multi30k", short=True)
    assert re.search(r"BLEU = [\d.]+ .*\| nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:", printed)
    assert len(lines_of(folder / "test.de")) == 9
    assert (folder / "data/translate_ende_multi30k/manifest.json").is_file()
    assert "BLEU = " in run(folder, "student", short=True)
    assert (folder / "student.de").read_bytes().count(b"\n") == 9
    student = json.loads((folder / "student/run.json").read_text())
    assert student["distilled"]["translate_ende_multi30k"]["teacher"]["hparams_set"] == "transformer_multi30k_tiny"


@pytest.mark.slow  # that the blocks on own files lead from training to exports, adapters, rewards and scores
def test_own_files(folder):
    run(folder, "own-files", short=True)
    assert len(lines_of(folder / "dev.out")) == 12
    printed = run(folder, "export").splitlines()
    assert [line for line in printed if line.startswith("exported to ")] == [
        "exported to served/mine/1", "exported to mine_ct2", "exported to mine_onnx", "exported to mine_litert"
    ]  # fmt: skip
    assert "serving_default: 12 of 12 outputs are those of the run" in printed[0]
    run(folder, "fine-tuning", short=True)
    run(folder, "adapters", short=True)
    assert len(lines_of(folder / "adapted.out")) == 12
    adapted, whole = (folder / name / "checkpoints/step-00000006/model.safetensors" for name in ("adapted", "mine"))
    assert adapted.stat().st_size < whole.stat().st_size / 4
    assert (folder / "adapted_ct2/model.bin").is_file()
    health, law, base = answers_in(run(folder, "serve-adapters"))
    assert health == {"status": "ok", "models": ["base", "law"]}
    assert [answer["model"] for answer in (law, base)] == ["law", "base"]
    for text, name in ((law["text"], "adapted"), (base["choices"][0]["text"], "mine")):
        assert text == t2t.load(folder / name).translate(["a text"])[0][0].text
    run(folder, "rewards", short=True)
    figures = [json.loads(line) for line in lines_of(folder / "rewarded/metrics.jsonl")]
    rewards = [line["train/reward"] for line in figures if "train/loss" in line]
    assert rewards
    assert all(0.0 <= reward <= 1.0 for reward in rewards)
    tuned, other = (json.loads((folder / name / "run.json").read_text()) for name in ("tuned", "other"))
    assert tuned["warm_start"]["optimizer_updates"] == 6
    assert tuned["warm_start"]["report"][0].endswith(" variables taken")
    assert other["warm_start"]["report"][1].startswith("rows of shared pieces taken over to another vocabulary: ")
    (folder / "base").symlink_to("mine", target_is_directory=True)
    for end, language in (("src", "en"), ("tgt", "de")):
        shutil.copy(folder / f"dev.{end}", folder / f"newstest2014.{language}")
    averaged, *scores = run(folder, "paper").splitlines()
    assert averaged.startswith("averaged steps 2, 4, 6 into ")
    assert len(lines_of(folder / "newstest2014.out")) == 12
    for line, label in zip(scores, ("sacreBLEU 13a", "sacreBLEU intl", "tokenized, compounds split"), strict=True):
        assert re.match(rf"{label} +BLEU = [\d.]+ .*\| nrefs:1\|case:mixed\|", line)


@pytest.mark.slow  # that a classifier begins with the weights of a masked model
def test_pretraining(folder):
    texts = lines_of(folder / "train.src")
    for name, rows in (("train", texts[:250]), ("dev", texts[250:])):
        (folder / f"texts.{name}").write_text("".join(f"{row}\n" for row in rows))
        (folder / f"reviews.{name}").write_text(
            "".join(f"{'good' if 'red' in row else 'bad'}\t{row}\n" for row in rows)
        )
    run(folder, "pretraining", short=True)
    masked, classifier = (json.loads((folder / name / "run.json").read_text()) for name in ("masked", "classifier"))
    assert masked["problem"] == "languagemodel_files_masked"
    (line,) = classifier["warm_start"]["report"]
    assert re.search(r": (\d+) of (\d+) variables taken; 2 missing from the checkpoint: \S+/class_label/", line)


@pytest.mark.slow  # that the block on parsing runs
def test_parsing(folder):
    rng = random.Random(0)
    for name, size in (("train", 200), ("dev", 10)):
        pairs = [(rng.choice(("a", "the")), rng.choice(("dog", "cat"))) for _ in range(size)]
        trees = [f"( (S (NP-SBJ (DT {dt}) (NN {nn})) (VP (VBZ runs) (NP (-NONE- *)))) )\n" for dt, nn in pairs]
        (folder / f"{name}.mrg").write_text("".join(trees))
        (folder / f"{name}.txt").write_text("".join(f"{dt} {nn} runs\n" for dt, nn in pairs))
    printed = run(folder, "parsing", short=True)
    assert "10 dev examples of parsing_trees" in printed
    assert "bracket_f1" in printed
    for line, tree in zip(lines_of(folder / "dev.txt"), lines_of(folder / "dev.parsed"), strict=True):
        assert parse_tree(tree).words() == line.split()


@pytest.mark.slow  # that the blocks on speech run
def test_speech(folder):
    rng = random.Random(0)
    for split, size in (("train", 40), ("dev", 4)):
        lines = []
        for n in range(size):
            word, samples = rng.choice(("seven", "three")), rng.randint(160, 240)
            sound = 0.5 * np.sin(np.arange(samples) / (3 if word == "three" else 9))
            (folder / f"{split}_{n}.wav").write_bytes(wav_file(sound, 8000))
            lines.append(f"{split}_{n}.wav\t{word}\n")
        (folder / f"speech.{split}").write_text("".join(lines))
    (folder / "words.txt").write_text("seven\n\nthree seven\n")
    printed = run(folder, "speech-recognition", short=True)
    assert "4 dev examples of speech_files" in printed
    assert "wer = " in printed
    assert len(lines_of(folder / "dev.heard")) == 4
    assert lines_of(folder / "heard.txt") == lines_of(folder / "dev.heard")
    assert len(set(re.findall("^wer = .*", printed, re.M))) == 1
    run(folder, "speech-generation", short=True)
    assert lines_of(folder / "words") == ["words.files/1.wav", "", "words.files/3.wav"]
    for number, ids in ((1, 2), (3, 3)):  # end of sequence included; five more samples at most
        waveform, rate = read_audio(folder / f"words.files/{number}.wav")
        assert rate == 8000
        assert len(waveform) <= ids + 5


@pytest.mark.slow  # that the blocks on video run
def test_video(folder):
    rng = np.random.default_rng(0)
    for stem, size in (("train", 60), ("t10k", 5)):
        images, labels = rng.integers(0, 256, (size, 28, 28)), rng.integers(0, 10, size)
        (folder / f"raw/{stem}-images-idx3-ubyte").write_bytes(idx(images.astype(np.uint8)))
        (folder / f"raw/{stem}-labels-idx1-ubyte").write_bytes(idx(labels.astype(np.uint8)))
    printed = run(folder, "video-classes", short=True)
    assert "5 dev examples of video_moving_mnist_class" in printed
    classes = lines_of(folder / "dev.classes")
    assert len(classes) == 5
    assert all(re.fullmatch(r"\d (up|down) (left|right)", one) for one in classes)
    (folder / "first_frames").mkdir()
    (folder / "first_frames/__init__.py").write_text(block("first_frames/__init__.py", "write"))
    run(folder, "video-first-frame", short=True)
    assert "bits_per_dim = " in run(folder, "video-next", short=True)
    assert lines_of(folder / "dev.next") == [f"dev.next.files/{number}.png" for number in range(1, 6)]
    with Image.open(folder / "dev.next.files/5.png") as image:
        assert image.size == (28, 28)


@pytest.mark.slow  # that an own problem is learned by the commands and functions shown, which are shortened elsewhere
def test_own_problem_and_python(folder):
    """Unchanged, training included: the small model learns to reverse phrases."""
    printed = run(folder, "own-problem")
    assert float(re.search(r"accuracy_per_sequence = ([\d.]+)", printed)[1]) > 0.5
    translated, score = run(folder, "python").splitlines()
    text, _, log_prob = translated.rpartition(" ")
    assert set(text.split()) <= {"dog", "old", "sees", "fox", "red", "small"}
    assert float(log_prob) <= 0.0
    assert -2.0 < float(score.strip("[]")) <= 0.0


@pytest.mark.slow  # that every mode and format of the page writes what it says
def test_decoding_as_its_page_says(tmp_path):
    example = block("zoo_python", page=ROOT / "docs/python.md")
    assert succeed(example, tmp_path, "python", is_warm=True).stdout.splitlines() == PHRASES
    printed = run(tmp_path, "decode_file")
    assert printed.startswith("\n".join(PHRASES))
    assert "1,000 dev examples of translate_ende_numbers" in printed
    assert lines_of(tmp_path / "phrases.de") == PHRASES
    two, tsv, jsonl, aligned = run(tmp_path, "decode_formats").splitlines()[::2]
    best, second = two.split("\t")
    texts, (score, _), (log_prob, _) = (tsv.split("\t")[column::3] for column in range(3))
    score, log_prob = float(score), float(log_prob)
    assert texts == [best, second]
    assert best == PHRASES[0] != second
    assert score == pytest.approx(log_prob / ((5 + 7) / 6) ** 0.6, abs=1e-5)  # seven pieces, with end of sequence
    ((line, hypotheses),) = [json.loads(jsonl).values()]
    near = {"score": pytest.approx(score, abs=1e-5), "log_prob": pytest.approx(log_prob, abs=1e-5)}
    assert (line, hypotheses) == (1, [{"text": best, **near}])
    assert re.fullmatch(rf"{best} \|\|\| \d-\d \d-\d", aligned)
    run(tmp_path, "decode_pairs")
    right, wrong = map(float, lines_of(tmp_path / "pairs.scores"))
    assert right == pytest.approx(log_prob, abs=1e-4)
    assert wrong < right
    assert re.fullmatch(r"\d-\d \d-\d", lines_of(tmp_path / "pairs.links")[0])


@pytest.mark.slow  # that the block of the page on training runs
def test_training_as_its_page_says(folder):
    run(folder, "train", short=True)
    made = {path.name for path in (folder / "numbers").iterdir()}
    assert {"run.json", "checkpoints", "metrics.jsonl", "events"} <= made


# === The text ===
def test_the_commands_are_those_of_the_console_scripts():
    listed = re.findall(r"^\| `(t2t-[a-z-]+)` \|", INDEX.read_text(encoding="utf-8"), re.M)
    scripts = importlib.metadata.entry_points(group="console_scripts")
    installed = {point.name: point for point in scripts if point.value.startswith("t2t.cli.")}
    assert sorted(listed) == sorted(installed) == sorted(path.name for path in (ROOT / "bin").iterdir())
    for name, point in installed.items():
        assert f"from {point.module} import {point.attr}\n" in (ROOT / "bin" / name).read_text(encoding="utf-8")
        assert os.access(ROOT / "bin" / name, os.X_OK)


def test_files_shown_are_the_projects_whose_check_runs_both_lines():
    shown = [one for one in blocks() if one.kind == "file"]
    assert shown
    for one in shown:
        assert one.text == without_comments((ROOT / one.name).read_text(encoding="utf-8")), one.name
    checks = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for name in ("quickstart", "tests"):
        assert f"python3 tests/readme.py {name} " in checks


def without_comments(source):
    """Returns Python source without comments and without the module docstring."""
    comments = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    lines = source.splitlines()
    for token in comments:
        row, column = token.start
        lines[row - 1] = lines[row - 1][:column].rstrip()
    head = ast.parse(source).body[0]
    has_docstring = isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant)
    return "\n".join(lines[head.end_lineno if has_docstring else 0 :]).strip() + "\n"
