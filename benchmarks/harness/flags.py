"""Flags shared by all comparisons."""

import argparse
import dataclasses
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.configs import CONFIGS, Config
from benchmarks.harness.corpus import PAIRS, Corpus, open_corpus
from benchmarks.harness.environments import UnavailableError, interpreter_of
from benchmarks.harness.prepared import VOCAB_SIZE
from benchmarks.harness.processes import Conditions, Side
from benchmarks.harness.rows import OURS, Row, print_table, unavailable, write_json
from benchmarks.harness.turns import Turns, take_turns
from benchmarks.peers import ENVIRONMENTS, Peer
from t2t.errors import UnknownNameError, UserError, did_you_mean


def build_parser(name: str, doc: str, peers: Mapping[str, Peer]) -> argparse.ArgumentParser:
    """Returns a parser with the shared flags, to which a comparison adds its own."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=doc.splitlines()[0])
    add = parser.add_argument

    def known_peers(text: str) -> str:
        chosen(text, peers)
        return text

    add("--config", choices=CONFIGS, default="tiny", help="sizes of the model")
    whole = ",".join(peers)
    add("--peers", type=known_peers, default=whole, help=f"some of {', '.join(peers)}; empty for none; default all")
    add("--data", type=Path, help="folder of Multi30k's files; default: synthetic text")
    add("--json", type=Path, help="file to write the rows to")
    add("--turns", type=_positive, default=3, help="runs of each side")
    add("--threads", type=_positive, default=2, help="threads and CPU cores of each side")
    add("--timeout", type=_positive, default=1800, help="maximum seconds of one turn of one side")
    add("--again", type=int, default=2, help="maximum repetitions of a turn that other processes disturbed")
    add("--prefix", default="", help="command that runs each measured process, e.g. 'nice -n -5'")
    add("--peers_home", type=Path, default=peers_home(), help="folder of the peers' environments and the data")
    add(
        "--pairs",
        type=_positive,
        help=f"training pairs, repeated or truncated; default: all of the folder, or {PAIRS} of synthetic text",
    )
    add("--vocab_size", type=_positive, default=VOCAB_SIZE, help="pieces of the joint vocabulary")
    return parser


def peers_home() -> Path:
    """Returns the default folder of the peers' environments and the data."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "t2t" / "peers"


@dataclasses.dataclass(frozen=True)
class Setting:
    """The parsed flags of a comparison, and what they select."""

    arguments: argparse.Namespace
    config: Config
    home: Path
    conditions: Conditions
    scratch: Path
    """Temporary folder for jobs, logs and results."""

    @property
    def turns(self) -> int:
        """Number of runs of each side."""
        return self.arguments.turns

    def corpus(self) -> Corpus:
        """Returns the corpus that the flags select."""
        return open_corpus(self.arguments.data, self.home, self.arguments.pairs)

    def ours(self, module: str, name: str = OURS, **options: Any) -> Side:
        """Returns a side of this project, run by a module of `benchmarks.ours`; `options` are added to its jobs."""
        return Side(name, Path(sys.executable), f"benchmarks.ours.{module}", options)

    def sides(self, work: str, peers: Mapping[str, Peer], *more: Side) -> tuple[list[Side], list[Row]]:
        """Returns our sides (`more` included) and available peers, and a row with the reason for each other peer."""
        sides, missing = [self.ours(work), *more], []
        for name in chosen(self.arguments.peers, peers):
            peer = peers[name]
            try:
                own = Path(sys.executable)
                python = interpreter_of(ENVIRONMENTS[peer.environment], self.home) if peer.environment else own
                sides.append(Side(name, python, f"benchmarks.peers.{peer.module}", peer.options))
            except UnavailableError as error:
                missing.append(unavailable(work, self.config.name, name, str(error)))
        return sides, missing

    def take_turns(self, sides: Sequence[Side], job: Mapping[str, Any], folder: str = "") -> list[Turns]:
        """Runs the sides in turn, ours first; jobs and logs are written to a subfolder of the scratch folder."""
        return take_turns(sides, dict(job), self.turns, self.scratch / folder, self.conditions)

    def finish(self, rows: list[Row]) -> int:
        """Prints the rows, writes them to `--json`, and deletes jobs and logs; returns the exit status, 0."""
        print_table(rows)
        if self.arguments.json:
            write_json(rows, self.arguments.json)
        shutil.rmtree(self.scratch, ignore_errors=True)
        return 0


def settings(arguments: argparse.Namespace, **changes: int | None) -> Setting:
    """Returns the setting of parsed flags; `changes` that are not None replace fields of the config.

    Raises:
        UserError: `--data` is not a folder.
    """
    if arguments.data is not None and not arguments.data.is_dir():
        raise UserError(f"--data={arguments.data}: there is no such folder; name the folder of Multi30k's files")
    config = dataclasses.replace(
        CONFIGS[arguments.config], **{name: value for name, value in changes.items() if value is not None}
    )
    home = arguments.peers_home.expanduser().absolute()
    home.mkdir(parents=True, exist_ok=True)
    conditions = Conditions(
        threads=arguments.threads,
        timeout=arguments.timeout,
        again=arguments.again,
        prefix=tuple(shlex.split(arguments.prefix)),
    )
    scratch = Path(tempfile.mkdtemp(prefix="t2t-benchmark-"))
    return Setting(arguments, config, home, conditions, scratch)


def chosen(text: str, known: Collection[str], flag: str = "--peers") -> list[str]:
    """Returns the names in a comma-separated list, the value of a flag.

    Raises:
        UnknownNameError: one of them does not exist.
    """
    found = [name for name in text.split(",") if name]
    for name in found:
        if name not in known:
            there = ", ".join(known)
            raise UnknownNameError(f"{flag}={text}: there is no {name!r}; {did_you_mean(name, known)}there are {there}")
    return found


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value
