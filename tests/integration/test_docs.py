"""The documentation is correct: its examples run, its links work, and the names that it mentions exist."""

import gzip
import importlib
import re
import runpy
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

import t2t
from t2t.cli.common import parse
from t2t.registry import HPARAMS
from t2t.runs.decisions import long_warmup
from t2t.runs.names import get_hparams
from tests.in_process import module_of
from tests.readme import GUIDES, INDEX, PAGES, ROOT, block, blocks, execute, shortened, succeed

DOCS = [page for page in PAGES if page.parent.name == "docs"]
LONG = ("--model=", "t2t-decoder", "t2t-eval")
"""Commands that only the slow tests run, since each of them imports TensorFlow."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


# === Examples ===
@pytest.fixture
def folder(tmp_path):
    """A reader's folder: the examples of a checkout, and small corpora under the names that the pages use."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "raw").mkdir()
    for name in ("train.nl.gz", "train.sv.gz", "dev.nl", "dev.sv"):
        text = "".join(f"{word} {n}\n" for n in range(50) for word in ("goed", "god")).encode()
        (tmp_path / f"raw/news.{name}").write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    for name in ("reviews.train", "reviews.dev"):
        (tmp_path / name).write_text("good\ta fine thing\nbad\ta poor thing\n" * 20)
    for name in ("train.src", "train.tgt", "dev.src", "dev.tgt"):
        (tmp_path / name).write_text("".join(f"line {n} of {n % 7}\n" for n in range(100)))
    return tmp_path


def write_files(page, folder):
    for one in blocks(page):
        if one.kind == "write":
            (folder / one.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / one.name).write_text(one.text, encoding="utf-8")


def run_blocks(page, folder, is_long):
    """Runs the long or the other blocks of a page in order, all pycon blocks as one; returns their number."""
    wanted = [one for one in blocks(page) if one.kind == "run" and any(mark in one.text for mark in LONG) == is_long]
    for one in wanted:
        if one.language != "pycon":
            succeed(shortened(one.text) if one.language == "bash" else one.text, folder, one.language)
    if shown := "\n".join(one.text for one in wanted if one.language == "pycon"):
        printed = succeed(shown, folder, "pycon").stdout
        assert not printed, f"{page.name}:\n{printed}"
    return len(wanted)


@pytest.mark.slow  # that the examples of the pages do what the pages say; the long ones train
@pytest.mark.parametrize(
    ("name", "is_long"),
    [
        ("numerics", False),
        ("coming_from", False),
        ("new_problem", False),
        ("new_model", True),
        pytest.param("new_problem", True, marks=pytest.mark.exhaustive),
    ],
)
def test_examples(name, is_long, folder):
    """Each training is replaced by six updates of a model of width 16; data and decoding are unchanged."""
    page = ROOT / f"docs/{name}.md"
    write_files(page, folder)
    assert run_blocks(page, folder, is_long=False)
    assert not is_long or run_blocks(page, folder, is_long=True)


FAKE_COMET = """
from types import SimpleNamespace

def download_model(name):
    return f"file of {name}"

def load_from_checkpoint(path):
    assert path == "file of Unbabel/wmt22-comet-da"
    return SimpleNamespace(predict=predict)

def predict(rows, batch_size, gpus):
    right = [row["mt"] == row["ref"] and row["src"].startswith("source") for row in rows]
    return SimpleNamespace(system_score=sum(right) / len(rows))
"""


def test_the_neural_metric_of_the_page_scores_files(folder):
    """With a fake package in place of COMET."""
    write_files(ROOT / "docs/new_problem.md", folder)
    (folder / "fakes").mkdir()
    (folder / "fakes/comet.py").write_text(FAKE_COMET)
    for name, lines in (("test.out", "a\nb\n"), ("test.de", "a\nc\n"), ("test.en", "source 1\nsource 2\n")):
        (folder / name).write_text(lines)
    (command,) = [one.text for one in blocks(ROOT / "docs/new_problem.md") if "--metrics=comet" in one.text]
    printed = succeed(f"export PYTHONPATH={folder}/fakes\n{command}", folder).stdout
    assert printed.splitlines()[-1] == "comet = 0.5000 | Unbabel/wmt22-comet-da"
    refused = execute("bash", command.replace(" --source=test.en", ""), folder)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'comet'" in refused.stderr
    assert "--source" in refused.stderr


@pytest.mark.slow  # that one model translates between the languages that its tags name
def test_one_model_of_several_languages_as_the_page_says(folder):
    page, words = ROOT / "docs/multilingual.md", {"en": "one two three", "de": "eins zwei drei", "fr": "un deux trois"}
    for split, size in (("train", 60), ("dev", 8)):
        for language, text in words.items():
            lines = [f"{text.split()[n % 3]} {text.split()[n % 2]} {n % 10}\n" for n in range(size)]
            (folder / "raw" / f"{split}.{language}").write_text("".join(lines))
    write_files(page, folder)
    assert [run_blocks(page, folder, is_long) for is_long in (False, True)] == [1, 2]
    for name in ("en-de", "de-fr"):
        assert len((folder / f"{name}.txt").read_text().splitlines()) == 8
    refused = execute("bash", block("decode", page=page).splitlines()[0].replace("=de ", "=it "), folder)
    assert refused.returncode == 2
    assert "<2it>; it has <2en>, <2de>, <2fr>" in refused.stderr


def test_every_marked_block_has_a_kind_that_is_checked_and_excerpts_stand_in_their_files():
    for page in PAGES:
        kinds = {"run", "file"} if page.parent == ROOT else {"run", "write", "excerpt"}
        assert {one.kind for one in blocks(page)} <= kinds | {""}, page.name
    pages_with_runs = {
        page.stem for page in DOCS if page not in GUIDES and any(one.kind == "run" for one in blocks(page))
    }
    assert pages_with_runs == {
        "coming_from", "importing", "jax", "multilingual", "new_problem", "new_model", "numerics", "python", "scale",
        "tuning", "weights",
    }  # fmt: skip
    shown = [one for page in DOCS for one in blocks(page) if one.kind == "excerpt"]
    assert shown
    for one in shown:
        assert one.text in (ROOT / one.name).read_text(encoding="utf-8"), one.text


@pytest.mark.slow  # that problems whose command the page does not show generate, too
def test_every_problem_of_the_page_generates(folder):
    write_files(ROOT / "docs/new_problem.md", folder)
    command = "t2t-datagen --t2t_usr_dir=my_problems --data_dir=data --problem="
    names = ("my_sorted_colours", "my_days", "my_reviews", "my_stripes", "my_sums", "my_rhymes")
    succeed(f"{command}{','.join(names)}", folder)
    for name in names:
        assert (folder / f"data/{name}/manifest.json").is_file()
    refused = execute("bash", f"{command}my_rhymes --vocab_size=100", folder)
    assert refused.returncode == 2
    assert {"100,", "300);"} <= set(refused.stderr.partition("(vocab_size:")[2].split())


def test_entry_point_of_the_page_is_found(folder):
    """The entry point of the page's pyproject.toml registers the page's problems without any flag."""
    write_files(ROOT / "docs/new_problem.md", folder)
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    points = "\n".join(f"{name} = {value}" for name, value in project["project"]["entry-points"]["t2t.plugins"].items())
    info = folder / "my_problems-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-problems\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[t2t.plugins]\n{points}\n")
    listed = succeed(f"export PYTHONPATH={folder}\nt2t-trainer --registry_help=my_", folder, is_warm=False).stdout
    for name in ("my_dates", "my_news", "my_reviews", "my_rhymes", "my_sorted_colours", "my_stripes", "my_sums"):
        assert name in listed
    twice = f"export PYTHONPATH={folder}\nt2t-trainer --t2t_usr_dir=my_problems --registry_help"
    both = execute("bash", twice, folder, is_warm=False)
    assert both.returncode == 2
    assert "my_problems/dates.py" in both.stderr


# === Links and names ===
def without_blocks(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_links_and_names_lead_somewhere(page):
    """Links, names of files and dotted names of Python."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(found), f"{page.name} links to {target}"
    for name in re.findall(r"`((?:t2t|tests|docs|bin|examples|\.ci)/[\w./-]*)`", without_blocks(page)):
        assert (ROOT / name).exists(), f"{page.name} names {name}"
    for name in set(re.findall(r"`(t2t(?:\.\w+)+)`", text)) - {"t2t.plugins"}:  # that is a group of entry points
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), f"{page.name} names {name}"


def test_the_first_page_lists_every_page_and_the_readme_fits_two_screens():
    table, _, tree = INDEX.read_text(encoding="utf-8").partition("## Pages")[2].partition("```{toctree}")
    pages = {page.stem for page in DOCS} - {"index"}
    assert {*re.findall(r"\]\((\w+)\.md\)", table)} == pages
    assert {*re.findall(r"^\w+$", tree, re.M)} == pages | {"walk"}
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


# === Commands ===
def commands_of(page):
    """Yields the words of every t2t command in the page's shell blocks, marked or not."""
    for one in blocks(page):
        if one.language != "bash":
            continue
        for line in one.text.splitlines():
            for part in re.split(r"&&?|\||;", re.sub(r"'[^']*'", "''", line)):
                words = shlex.split(part, comments=True)
                if words and Path(words[0]).name.startswith("t2t-"):
                    yield [Path(words[0]).name, *words[1:]]


@pages
def test_flags_exist_and_no_training_ends_soon_after_its_warm_up(page):
    """Of a set that t2t has; results.md shows its commands, which are no blocks, as they were measured."""
    for words in commands_of(page):
        module = module_of(words[0])
        made = ("--config=", "--digits=")  # a file, and a plug-in's option, which a run of the page writes
        given = [word for word in words if not word.startswith(made)]
        values = parse(module.build_flags(), given, "", module.main.positional)
        if words[0] in ("t2t-trainer", "t2t-tune") and values.hparams_set in HPARAMS:
            hparams = get_hparams(values.hparams_set).override(",".join(values.hparams))
            steps = hparams.train_steps if values.train_steps is None else values.train_steps
            assert not long_warmup(hparams.replace(train_steps=steps)), words


def test_flags_that_are_named_exist():
    known = {"flag_name", "help", "digits"}.union(  # the last: an option of a plug-in on a page
        *(module_of(path.name).build_flags() for path in (ROOT / "bin").iterdir())
    )
    for page in PAGES:
        for name in re.findall(r"`--([a-z][\w-]*)", without_blocks(page)):
            assert name.replace("-", "_") in known, f"{page.name} names --{name}"


# === docs/weights.md: its code, which needs only numpy and safetensors, gives the library's probabilities ===
def test_the_code_of_the_page_computes_the_model_without_the_library(tiny_run, tmp_path):
    shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    code = "import sys\nsys.modules['t2t'] = sys.modules['tensorflow'] = None\n"
    done = execute("python", code + block("weights", page=ROOT / "docs/weights.md"), tmp_path, is_warm=False)
    assert done.returncode == 0, done.stderr
    translator = t2t.load(str(tiny_run.output_dir))
    assert float(done.stdout) == pytest.approx(translator.score_ids([[3, 4, 5]], [[5, 4, 3]])[0], abs=1e-4)


# === Pictures ===
def test_a_box_of_a_flame_graph_is_as_wide_as_the_time_in_it(tmp_path):
    """Three of ten samples are in a function that a library called, five in that library alone, two in another."""
    main = "thread (1): MainThread;main (t2t/cli/trainer.py:141)"
    stacks = {
        f"{main};fit (keras/src/trainer.py);_one_update (t2t/training/trainer.py)": 3,
        f"{main};fit (keras/src/trainer.py)": 5,
        f"{main};dumps (json/__init__.py)": 2,
        "thread (2): Thread-1;_read (t2t/data/reading/prefetch.py)": 90,
    }
    (tmp_path / "stacks").write_text("".join(f"{stack} {count}\n" for stack, count in stacks.items()))
    draw = runpy.run_path(str(ROOT / "docs/draw_flames.py"))["draw"]
    picture = draw(tmp_path / "stacks", seconds=0.5, title="a command")
    boxes = re.findall(r"<title>([^<]*): ([\d.]+) s</title><rect[^>]* x=\"([\d.]+)\" [^>]*width=\"([\d.]+)\"", picture)
    assert boxes == [
        ("main (cli/trainer.py)", "5.0", "0.0", "1000.0"),
        ("[keras]", "2.5", "0.0", "500.0"),
        ("_one_update (training/trainer.py)", "1.5", "500.0", "300.0"),
        ("[json]", "1.0", "800.0", "200.0"),
    ]
