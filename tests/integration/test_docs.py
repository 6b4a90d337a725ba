"""The documentation is correct: its examples run, its links work, and the names that it mentions exist."""

import gzip
import importlib
import importlib.metadata
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from t2t.cli.common import parse
from tests.readme import GUIDES, PAGES, ROOT, block, blocks, execute, shortened

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
    shown = "\n".join(one.text for one in wanted if one.language == "pycon")
    parts = [(one.name, one.language, one.text) for one in wanted if one.language != "pycon"]
    for name, language, text in [*parts, ("what it shows", "pycon", shown)] if shown else parts:
        done = execute(language, shortened(text) if language == "bash" else text, folder)
        failed = done.returncode != 0 or (language == "pycon" and done.stdout)
        assert not failed, f"{page.name}, {name}:\n{done.stdout}\n{done.stderr}"
    return len(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["new_problem", "new_model", "numerics"])
def test_examples_that_train_nothing(name, folder):
    page = ROOT / f"docs/{name}.md"
    write_files(page, folder)
    assert run_blocks(page, folder, is_long=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("new_problem", marks=pytest.mark.exhaustive), "new_model"])
def test_examples_that_train(name, folder):
    """Each training is replaced by six updates of a model of width 16; data and decoding are unchanged."""
    page = ROOT / f"docs/{name}.md"
    write_files(page, folder)
    run_blocks(page, folder, is_long=False)
    assert run_blocks(page, folder, is_long=True)


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
    done = execute("bash", f"export PYTHONPATH={folder}/fakes\n{command}", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "comet = 0.5000 | Unbabel/wmt22-comet-da"
    refused = execute("bash", command.replace(" --source=test.en", ""), folder)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "metric 'comet' reads the inputs, too; name their file with --source" in refused.stderr
    unknown = execute("bash", command.replace("--metrics=comet", "--metrics=commet"), folder)
    assert "metric 'commet' is not known; did you mean comet" in unknown.stderr


@pytest.mark.slow
def test_one_model_of_several_languages_as_the_page_says(folder):
    page, words = ROOT / "docs/multilingual.md", {"en": "one two three", "de": "eins zwei drei", "fr": "un deux trois"}
    for split, size in (("train", 60), ("dev", 8)):
        for language, text in words.items():
            lines = [f"{text.split()[n % 3]} {text.split()[n % 2]} {n % 10}\n" for n in range(size)]
            (folder / "raw" / f"{split}.{language}").write_text("".join(lines))
    write_files(page, folder)
    assert run_blocks(page, folder, is_long=False) == 1
    assert run_blocks(page, folder, is_long=True) == 2
    for name in ("en-de", "de-fr"):
        assert len((folder / f"{name}.txt").read_text().splitlines()) == 8
    done = execute("bash", block("decode", page=page).splitlines()[0].replace("=de ", "=it "), folder)
    assert done.returncode == 2
    assert "has no tag <2it>; it has <2en>, <2de>, <2fr>; name a language with a tag, or learn" in done.stderr


def test_every_marked_block_has_a_kind_that_is_checked():
    for page in PAGES:
        kinds = {"run", "file"} if page.parent == ROOT else {"run", "write", "excerpt"}
        assert {one.kind for one in blocks(page)} <= kinds | {""}, page.name
    pages_with_runs = {
        page.stem for page in DOCS if page not in GUIDES and any(one.kind == "run" for one in blocks(page))
    }
    assert pages_with_runs == {
        "importing", "jax", "multilingual", "new_problem", "new_model", "numerics", "python", "scale", "tuning",
        "weights",
    }  # fmt: skip


@pytest.mark.slow
def test_every_problem_of_the_page_generates(folder):
    """Also problems whose command the page does not show; a class problem is refused as the page says."""
    write_files(ROOT / "docs/new_problem.md", folder)
    for name in ("my_sorted_colours", "my_days", "my_reviews", "my_stripes", "my_sums", "my_rhymes"):
        command = f"t2t-datagen --t2t_usr_dir=my_problems --problem={name} --data_dir=data"
        done = execute("bash", command, folder)
        assert done.returncode == 0, done.stderr
        assert (folder / f"data/{name}/manifest.json").is_file()
        again = execute("bash", command, folder)
        assert "is there already" in again.stderr
    refused = execute("bash", f"{command} --vocab_size=100", folder)
    assert refused.returncode == 2
    assert "made otherwise than asked (vocab_size: asked 100, found 300)" in refused.stderr


def test_entry_point_of_the_page_is_found(folder):
    """The entry point of the page's pyproject.toml registers the page's problems without any flag."""
    write_files(ROOT / "docs/new_problem.md", folder)
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    points = "\n".join(f"{name} = {value}" for name, value in project["project"]["entry-points"]["t2t.plugins"].items())
    info = folder / "my_problems-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-problems\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[t2t.plugins]\n{points}\n")
    listed = execute("bash", f"export PYTHONPATH={folder}\nt2t-trainer --registry_help=my_", folder)
    assert listed.returncode == 0, listed.stderr
    for name in ("my_dates", "my_news", "my_reviews", "my_rhymes", "my_sorted_colours", "my_stripes", "my_sums"):
        assert name in listed.stdout
    both = execute("bash", f"export PYTHONPATH={folder}\nt2t-trainer --t2t_usr_dir=my_problems --registry_help", folder)
    assert both.returncode == 2
    assert "is registered twice" in both.stderr


def test_excerpts_stand_in_their_files():
    shown = [one for page in DOCS for one in blocks(page) if one.kind == "excerpt"]
    assert shown
    for one in shown:
        assert one.text in (ROOT / one.name).read_text(encoding="utf-8"), one.text


# === Links and names ===


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(found), f"{page.name} links to {target}"


def test_the_readme_lists_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Documentation")[2]
    listed = {ROOT / name for name in re.findall(r"\]\((docs/\w+\.md)\)", text)}
    assert listed == {*DOCS} - {ROOT / "docs/index.md"}


@pages
def test_files_that_are_named_exist(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for name in re.findall(r"`((?:t2t|tests|docs|bin|examples|\.ci)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


@pages
def test_dotted_names_exist(page):
    for name in set(re.findall(r"`(t2t(?:\.\w+)+)`", page.read_text(encoding="utf-8"))):
        if name == "t2t.plugins":  # also the name of the entry-point group
            continue
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), f"{page.name} names {name}"


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


def command_module(command):
    """Returns the module behind a console script."""
    (script,) = importlib.metadata.entry_points(group="console_scripts", name=command)
    return importlib.import_module(script.module)


@pages
def test_flags_exist(page):
    for words in commands_of(page):
        module = command_module(words[0])
        given = [word for word in words if not word.startswith("--config=")]  # whose file a run of the page writes
        parse(module.build_flags(), given, "", module.main.positional)


def test_flags_that_are_named_exist():
    known = flags_of_all_commands() | {"flag_name"}
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for name in re.findall(r"`--([a-z][\w-]*)", text):
            assert name.replace("-", "_") in known, f"{page.name} names --{name}"


def flags_of_all_commands():
    names = set()
    for path in (ROOT / "bin").iterdir():
        module = command_module(path.name)
        names |= set(module.build_flags()) | {"help"}
    return names
