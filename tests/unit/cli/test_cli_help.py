"""The `--help` text of every command: its width, headings and names; and the scripts of commands in `bin/`."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from t2t.cli.common import parse
from t2t.cli.flags import WIDTH
from t2t.errors import UnknownNameError
from t2t.registry import HPARAMS, HPARAMS_RANGES, MODALITIES, MODELS, PROBLEMS
from t2t.runs.names import get_hparams, get_problem, select_names
from t2t.specs.features import split_mixture
from tests.errors import refused
from tests.in_process import module_of
from tests.readme import PAGES, ROOT

COMMANDS = {door.name: module_of(door.name) for door in sorted((ROOT / "bin").iterdir())}
REGISTRIES = (PROBLEMS, MODELS, HPARAMS, HPARAMS_RANGES, MODALITIES)
NAMES = {name for registry in REGISTRIES for name in registry.names()}
KINDS = {
    "problem": get_problem, "problems": get_problem, "model": MODELS.entry, "hparams_set": HPARAMS.entry,
    "hparams_range": HPARAMS_RANGES.entry,
}  # fmt: skip
OTHERS = re.compile(r"my_|their_")
"""Names that users give their own parts in examples."""
LOOK_ALIKE = {"image_shape", "image_size", "image_fit", "multi_processing", "transformer_align"}
"""Attributes of problems, a value of Apache Beam and a model of fairseq, which look like registered names."""

every_command = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture
def shown(capsys):
    def help_of(name):
        assert COMMANDS[name].main([name, "--help"]) == 0
        return capsys.readouterr().out

    return help_of


@every_command
def test_lines_fit_below_the_usage_and_every_flag_stands_under_a_heading_once_with_its_second_names(name, shown):
    text, values = shown(name), COMMANDS[name].build_flags()
    assert max(map(len, text.splitlines())) <= WIDTH == 100
    words = " ".join(text.split())
    assert words.startswith(" ".join(COMMANDS[name].USAGE.replace("%s", name).split()))
    assert len(re.findall(r"^[A-Z]\w+[\w ]*:$", text, re.M)) >= 1
    for flag in values:
        original = getattr(values[flag], "alias_of", values[flag].name)
        if hasattr(values[flag], "unused"):
            assert re.search(rf" --{values[flag].name}[,.]", words)
        elif original == flag:
            assert len(re.findall(rf"^  --{flag}: ", text, re.M)) == 1, flag
        elif len(flag) > 1:
            assert f"also --{flag}" in words


def test_large_commands_have_several_headings_in_the_same_order(shown):
    headings = {name: re.findall(r"^([A-Z]\w+[\w ]*):$", shown(name), re.M) for name in COMMANDS}
    assert headings["t2t-trainer"] == [
        "Names", "Run", "Data", "Filters of training data", "Training", "Warm start", "Decoding", "Machine",
    ]  # fmt: skip
    assert headings["t2t-decoder"] == ["Names", "Run", "What to do", "Output", "Decoding", "Machine"]
    assert headings["t2t-server"] == ["Names", "Run", "Decoding", "Machine", "Service"]


# === Names ===
def check_words(words):
    """Raises an error if a command line has a name that is not registered, or an unknown flag."""
    command = COMMANDS[Path(words[0]).name]
    parse(command.build_flags(), words, "")
    for word in words[1:]:
        flag, _, value = word.removeprefix("--").partition("=")
        if flag in KINDS:
            for one in select_names(value) if flag.startswith("problem") else [value]:
                if not OTHERS.match(one) and one not in ("", "...", "b"):
                    KINDS[flag](one)


def commands_in(text):
    """Yields the words of each t2t command in a text; joins continued lines and drops trailing remarks in brackets."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&?|\||;", re.sub(r"'[^']*'", "''", re.sub(r"  \(.*\)$", "", line))):
            if re.match(r"\s*(?:\S*/)?t2t-[a-z-]+ +--", part):
                yield [word for word in shlex.split(part, comments=True) if word not in ("<", ">", "...")]


@every_command
def test_the_commands_that_a_help_shows_name_what_exists(name, shown):
    usage = shown(name).partition("\n\n")[2]
    lines = [words for words in commands_in(usage) if words[0] in COMMANDS]
    for words in lines:
        check_words([word for word in words if word.startswith(("--", "t2t-"))])
    assert lines or name == "t2t-evalb"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_names_that_a_page_passes_to_flags_exist(page):
    found = re.findall(r"--(problems?|model|hparams_set)[= ]([a-z][\w-]*[a-z0-9])(?![\w*<])", page.read_text())
    for flag, value in found:
        for one in split_mixture(value) if flag.startswith("problem") else [value]:
            if not OTHERS.match(one) and one not in ("a", "b", "c"):
                try:
                    KINDS[flag](one)
                except UnknownNameError:
                    pytest.fail(f"{page.name} has --{flag}={value}")


def test_a_name_that_does_not_exist_is_found():
    (words,) = commands_in("    t2t-trainer --problems=tiny_algo-algorithmic_swap --model=transformer  (both)\n")
    with refused("'algorithmic_swap'", by=UnknownNameError):
        check_words(words)


def texts_for_users():
    """Yields (source, text) of help texts, pages and summaries."""
    for name, command in COMMANDS.items():
        values = command.build_flags()
        yield name, "\n".join([command.USAGE, *(values[flag].help for flag in values)])
    for page in PAGES:
        if page.stem != "CHANGELOG":
            # What repositories of others define, in rows that begin with the repository, is none of ours.
            own = re.sub(r"(?m)^\| [\w.-]+/[\w.-]+ \|.*$", "", page.read_text(encoding="utf-8"))
            yield page.name, own
    for registry in REGISTRIES:
        for entry in registry.entries():
            yield entry.name, entry.summary


def test_words_that_look_like_names_are_registered():
    """A word with the prefix of several names, like `transformer_...`, is a registered name, field, file or module."""
    fields = {name for hparams_set in HPARAMS.names() for name, _ in get_hparams(hparams_set).items()}
    ours = [path for folder in ("t2t", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*")]
    files = {path.stem for path in ours}
    first_words = {name.partition("_")[0] for name in NAMES - set(MODALITIES.names()) if "_" in name}
    known = NAMES | fields | files | LOOK_ALIKE
    for where, text in texts_for_users():
        for word in re.findall(r"(?<![\w./-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w*{(<=/.]|\.\w)", text):
            base = re.sub(r"(_rev|_copy|_masked)+$", "", word)
            if word.partition("_")[0] in first_words and base not in known:
                pytest.fail(f"{where} names {word}, which is not registered")


def test_summaries_stand_alone_and_flags_that_a_help_names_are_some_commands():
    """A listing can show one name alone, so its summary does not build on the one above."""
    leaning = re.compile(r"(The same|Same|As|Like|Also|But|With|Another|Its?|Their|These|This) ")
    assert [e.name for registry in REGISTRIES for e in registry.entries() if leaning.match(e.summary)] == []
    known = {flag for command in COMMANDS.values() for flag in command.build_flags()} | {"help"}
    for name, command in COMMANDS.items():
        values = command.build_flags()
        text = "\n".join([command.USAGE, *(values[flag].help for flag in values)])
        for flag in re.findall(r"(?<![\w-])--([a-z]\w+)", text):
            assert flag in known, f"{name} names --{flag}"
        for other in re.findall(r"\bt2t-[a-z-]+", text):
            assert other in COMMANDS, f"{name} names {other}"


# === The scripts in a checkout's `bin/` run the checkout's package, even if another version is installed ===
DOORS = sorted((Path(__file__).resolve().parents[3] / "bin").iterdir())


@pytest.mark.parametrize("door", DOORS, ids=lambda path: path.name)
def test_a_command_of_a_checkout_needs_no_installation(door, tmp_path):
    """Run through a link in another folder, the first also by its path; a fake package reports that it was imported."""
    module = COMMANDS[door.name].__name__.rpartition(".")[2]
    for folder in ("bin", "t2t/cli", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    for package in ("t2t", "t2t/cli"):
        (tmp_path / package / "__init__.py").touch()
    fake = "import sys\n\n\ndef main():\n    print(*sys.argv[1:])\n    return 3\n"
    (tmp_path / f"t2t/cli/{module}.py").write_text(fake)
    shutil.copy(door, tmp_path / "bin")
    (tmp_path / "elsewhere/link").symlink_to(tmp_path / "bin" / door.name)
    there = {"cwd": tmp_path / "elsewhere"}
    there["env"] = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    by_path = [[sys.executable, f"../bin/{door.name}"], [f"../bin/{door.name}"]] if door == DOORS[0] else []
    for command in (*by_path, ["./link"]):
        done = subprocess.run([*command, "--a=b"], **there, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (3, "--a=b\n"), done.stderr
