"""The marked blocks of README.md and docs/; `python tests/readme.py NAME` prints the block `run: NAME` of a guide.

A mark is an HTML comment on the line before a fenced block:

    run: NAME      is executed: bash by a shell, python as a file; pycon must print the shown outputs
    write: PATH    is written to that path in the folder in which the page's blocks are executed
    file: PATH     equals that file of the project, without comments and module docstring
    excerpt: PATH  occurs verbatim in that file of the project
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
INDEX = ROOT / "docs/index.md"
_NAMES = (
    "constraints", "decoding", "exporting", "fine_tuning", "index", "insight", "paper", "parsing", "results", "serving",
    "speech", "speed", "training", "video",
)  # fmt: skip
GUIDES = (README, *(ROOT / f"docs/{name}.md" for name in _NAMES))
"""README and the guides that continue it; block names are unique across them."""
PHRASES = ["einundzwanzig Katzen", "der Zug fährt um halb sieben ab"]
"""Translations that the first command of the README prints."""
PAGES = (README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK = re.compile(
    r"^(?:<!-- (?P<kind>\w+): (?P<name>\S+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
_LENGTH = re.compile(r" --(train_steps|local_eval_frequency|eval_steps)=\S+|\bbatch_size=\d+,")
_TRIALS = re.compile(r"--trials=\d+")
_SHORT = (
    "--train_steps=6 --local_eval_frequency=2 --eval_steps=1 --hparams=batch_size=256,extra_length=5,hidden_size=16"
)
_NARROW = ",num_hidden_layers=1,filter_size=16,num_heads=2,effective_batch_size=0"


class Block(NamedTuple):
    """A fenced block and the mark before it."""

    kind: str
    """`run`, `write`, ...; empty if the block has no mark."""
    name: str
    language: str
    text: str


def blocks(*pages: Path) -> list[Block]:
    """Returns the fenced blocks of pages in order; by default those of README and its guides."""
    found = [one for page in pages or GUIDES for one in _BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return [Block(one["kind"] or "", one["name"] or "", one["language"], one["text"]) for one in found]


def block(name: str, kind: str = "run", page: Path | None = None) -> str:
    """Returns the text of the block with a mark; by default searches README and its guides.

    Raises:
        LookupError: there is none, or more than one.
    """
    found = [one.text for one in (blocks(page) if page else blocks()) if (one.kind, one.name) == (kind, name)]
    if len(found) != 1:
        where = page.name if page else "README and its guides"
        raise LookupError(f"{where}: {len(found)} blocks marked <!-- {kind}: {name} -->, not one")
    return found[0]


def shortened(commands: str) -> str:
    """Returns the commands with each training cut down to six updates of a very small model, with three checkpoints."""
    lines = []
    for line in commands.splitlines():
        command = next((name for name in ("t2t-trainer", "t2t-tune") if name in line), "")
        if command and any(flag in line for flag in ("--model=", "--config=", "--warm_start_from=")):
            small = _SHORT + (_NARROW if "--model=transformer" in line or "--config=" in line else "")
            line = _TRIALS.sub("--trials=2", _LENGTH.sub("", line)).replace(command, f"{command} {small}", 1)
        lines.append(line)
    return "\n".join(lines) + "\n"


_SECONDS = 1200
"""Seconds after which a block counts as hanging."""


def translate_quickstart(folder: Path, before: str = "") -> list[str]:
    """Trains with the README's first command, with `before` in front of `t2t-trainer`; returns its translations."""
    _, _, line = block("quickstart").rpartition("&& ")
    texts, _, command = line.replace(".venv/bin/", "").replace("quickstart/", "").partition("| ")
    done = execute("bash", f"{texts}| {before} {command}", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def execute(language: str, text: str, folder: Path, is_warm: bool | None = None) -> subprocess.CompletedProcess:
    """Runs a block as a newcomer would: with a new home, and the commands of this interpreter's environment on PATH.

    Args:
        language: bash, python or pycon.
        text: text of the block.
        folder: working directory, and home.
        is_warm: whether commands start warm, see `tests.commands`; by default if the block has one that imports
            TensorFlow, as a server of warm processes takes long to start.
    """
    from tests.commands import COLD, warm  # not at the top: .ci/run starts this file as a script

    if is_warm is None:
        is_warm = language != "bash" or not set(re.findall(r"\bt2t-[a-z-]+|\bpython3?\b", text)) <= COLD
    here, environment = Path(sys.executable).parent, {"HOME": str(folder), "LANG": "C.UTF-8"}
    stand_ins, environment = warm(environment) if is_warm else (here, environment)
    python = str(stand_ins / "python")
    command = {
        "bash": ["bash", "-euo", "pipefail"],
        "python": [python, "-"],
        "pycon": [python, "-c", "import doctest, sys; doctest.run_docstring_examples(sys.stdin.read(), {})"],
    }[language]
    path = os.pathsep.join([str(stand_ins), str(here), os.environ["PATH"]])
    return subprocess.run(
        command, input=text, cwd=folder, env={**environment, "PATH": path}, capture_output=True, encoding="utf-8",
        timeout=_SECONDS,
    )  # fmt: skip


def succeed(
    text: str, folder: Path, language: str = "bash", is_warm: bool | None = None
) -> subprocess.CompletedProcess:
    """Runs a block that must succeed, see `execute`."""
    done = execute(language, text, folder, is_warm)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done


if __name__ == "__main__":
    print(block(sys.argv[1]), end="")
