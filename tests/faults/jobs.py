"""The commands under test, each on a toy problem that is as small as possible but exercises all of the command.

Results are compared by file name and content: a leftover file is a difference, just as a flipped bit is.
"""

import hashlib
import json
import random
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.process import Command

SIZES = {"train": 3000, "dev": 60}
PARTS, TASKS = 8, 3
"""Number of training shards in sharded jobs, and of array-job tasks that generate them."""

SHARDED = ("shards", "array", "beam")
"""Jobs that generate data in shards: in processes; in tasks of an array job, without duplicates; with Apache Beam."""
GENERATING = ("generation", *SHARDED)

LINES = 160
"""Number of lines to decode, in windows of ten."""
SHARDS = 3
"""Number of shards of these lines."""

_BEAM = "--runner=DirectRunner --direct_num_workers=2 --direct_running_mode=multi_processing"
UPDATES, EVERY = 15, 3
_HPARAMS = (
    "hidden_size=16,filter_size=32,num_heads=2,num_hidden_layers=1,batch_size=256,max_length=24,learning_rate=0.01,"
    "learning_rate_schedule=constant,learning_rate_warmup_steps=5,extra_length=2,beam_size=2,ema_decay=0.9"
)
_WALL_CLOCK = ("created", "seal", "time", "tokens_per_second")
"""Fields that may differ between two equal runs; the seal covers the other fields, including times."""

Made = dict[str, str]
"""Contents of a folder: path -> first 16 hex digits of the sha256 of the file."""


@dataclass(frozen=True)
class Job:
    """A command, its input and its results.

    `materials` is the input, which jobs only read: raw files, and the data and run that undisturbed jobs made of them.
    """

    name: str
    materials: Path

    @property
    def module(self) -> str:
        """The command's module; `kills.jumping` uses it to start even cold-only jobs warm."""
        if self.name in GENERATING:
            return "t2t.cli.datagen"
        return "t2t.cli.trainer" if self.name == "training" else "t2t.cli.decoder"

    @property
    def is_cold_only(self) -> bool:
        """Whether its processes always start cold: the imports of a warm one would keep generation from forking."""
        return self.name in GENERATING

    @property
    def is_only_killed(self) -> bool:
        """Whether only kills are injected: other faults would repeat those of another job, or the job is too short."""
        return self.name in (*SHARDED, "merging")

    def command(self, out: Path) -> Command:
        """Returns the command that makes everything in `out`."""
        commands = {
            "training": self._training, "decoding": self._decoding, "sharding": self._sharding,
            "merging": self._merging,
        }  # fmt: skip
        return commands.get(self.name, self._generation)(out)

    def lock(self, out: Path) -> Path:
        """Returns the file whose existence shows that a process has begun to write in `out`."""
        names = {
            "training": "run/lock", "decoding": "out/decoded.partial", "merging": "out/decoded.partial",
            "sharding": "out/decoded.shard-00001-of-00003.partial",
        }  # fmt: skip
        return out / names.get(self.name, "data/.text2text_files.lock")

    def made(self, out: Path) -> "Made":
        """Returns the results of a process in `out`."""
        return made_in(out)

    def keep_as_material(self, out: Path) -> None:
        """Provides the results to later jobs; those of one decoded shard together with the other shards."""
        if self.name in ("generation", "training"):
            folder = "data" if self.name == "generation" else "run"
            shutil.copytree(out / folder, self.materials / folder)
        elif self.name == "sharding":
            shutil.copytree(out / "out", self.materials / "out")
            for number in range(SHARDS):
                process = self._sharding(self.materials, number).start(self.materials / "shards.log")
                assert process.wait() == 0, f"shard {number} fails, see {process.log}"

    def _generation(self, out: Path) -> Command:
        raw = self.materials / "raw"
        named = {f"{split}_{side}": raw / f"{split}.{side}" for split in SIZES for side in ("source", "target")}
        if self.name in SHARDED:
            named |= {f"train_{side}": raw / "parts" / f"*.{side}" for side in ("source", "target")}
        files = (f"--{flag}={path}" for flag, path in named.items())
        flags = (*files, "--problem=text2text_files", "--vocab_size=300", f"--data_dir={out / 'data'}")
        if self.name == "beam":
            flags = (*flags, f"--beam_options={_BEAM}")
        if self.name == "array":
            flags = (*flags, "--filter_duplicates=pair")
            return Command("array job", (str(TASKS), *flags), script="tests/faults/array_job.py")
        return Command("t2t-datagen", flags)

    def _training(self, out: Path) -> Command:
        flags = (
            "--problem=text2text_files", f"--data_dir={self.materials / 'data'}", f"--output_dir={out / 'run'}",
            "--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={_HPARAMS}", "--worker_cpu=1",
            f"--train_steps={UPDATES}", f"--local_eval_frequency={EVERY}", "--keep_checkpoint_max=2", "--eval_steps=1",
            "--log_step_count_steps=2",
        )  # fmt: skip
        return Command("t2t-trainer", flags, self.module)

    def _decoding(self, out: Path, *more: str) -> Command:
        (out / "out").mkdir(exist_ok=True)
        flags = (
            f"--output_dir={self.materials / 'run'}", f"--decode_from_file={self.materials / 'lines'}",
            f"--decode_to_file={out / 'out' / 'decoded'}", "--decode_window=10", *more,
        )  # fmt: skip
        return Command("t2t-decoder", flags, self.module)

    def _sharding(self, out: Path, number: int = 1) -> Command:
        return self._decoding(out, f"--shard={number}/{SHARDS}")

    def _merging(self, out: Path) -> Command:
        if not (out / "out").exists():
            shutil.copytree(self.materials / "out", out / "out")
        return self._decoding(out, "--merge")


def write_raw(materials: Path) -> None:
    """Writes pairs of training and dev texts, and lines to decode."""
    rng = random.Random(0)
    (materials / "raw" / "parts").mkdir(parents=True)
    for split, size in SIZES.items():
        rows = [[_word(rng) for _ in range(rng.randint(1, 5))] for _ in range(size)]
        for side, lines in (("source", rows), ("target", [row[::-1] for row in rows])):
            _write_lines(materials / "raw" / f"{split}.{side}", lines)
            for part in range(PARTS if split == "train" else 0):
                _write_lines(materials / "raw" / "parts" / f"{part}.{side}", lines[part::PARTS])
    lines = (" ".join(_word(rng) for _ in range(rng.randint(1, 5))) for _ in range(LINES))
    (materials / "lines").write_text("".join(line + "\n" for line in lines))


def _write_lines(path: Path, lines: list[list[str]]) -> None:
    path.write_text("".join(" ".join(line) + "\n" for line in lines))


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("bdgklmnrst") + rng.choice("aeiou") for _ in range(rng.randint(1, 3)))


def made_in(out: Path) -> Made:
    """Returns the contents of a folder without event files, wall-clock times and locks, which kills leave behind."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.is_file() and not name.endswith("lock") and "/events/" not in name:
            found[name] = hashlib.sha256(_content(path)).hexdigest()[:16]
        elif path.is_dir() and not any(path.iterdir()):
            found[name + "/"] = "empty"
    return found


def _content(path: Path) -> bytes:
    if path.name == "run.json":
        return json.dumps(_timeless(json.loads(path.read_bytes()))).encode()
    if path.name == "metrics.jsonl":
        return "\n".join(_evaluations(path)).encode()
    return path.read_bytes()


def _evaluations(path: Path) -> Iterator[str]:
    """Yields the last evaluation of each update; lines on training are left out, since restarts change them."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = {line["step"]: line for line in lines if any(name.startswith("dev/") for name in line)}
    for step in sorted(last):
        yield json.dumps(_timeless(last[step]), sort_keys=True)


def _timeless(told: dict) -> dict:
    return {name: value for name, value in told.items() if name.rpartition("/")[2] not in _WALL_CLOCK}


def differences(wanted: Made, found: Made) -> str:
    """Returns the names of the files in which two folders differ; "" for none.

    A checkpoint that a signal made after the last but one of an undisturbed run is among the newest, which are kept, in
    the place of that one.
    """
    undisturbed, kept = _checkpoints(wanted), _checkpoints(found)
    of_signals = {update for update in kept - undisturbed if UPDATES - EVERY < update < UPDATES}
    ignored = of_signals | ({UPDATES - EVERY} - kept if of_signals else set())
    names = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    names = [name for name in names if not ignored & _checkpoints([name])]
    said = {name: "missing" if name not in found else "left over" if name not in wanted else "other" for name in names}
    return ", ".join(f"{name} {what}" for name, what in said.items())


def _checkpoints(names: Iterable[str]) -> set[int]:
    """Returns the updates of the checkpoints to which some files belong."""
    return {int(found[1]) for name in names if (found := re.match(r"run/checkpoints/step-(\d+)/", name))}


def finished_files(out: Path) -> set[tuple[int, int]]:
    """Returns the identities (inode, modification time) of the files of finished shards that are not merged yet."""
    records = (path for split in SIZES for path in out.glob(f"data/.*.partial/work/{split}-*/record.json"))
    return {_known_by(file) for record in records for file in record.parent.glob("*.npy")}


def remade_shards(finished: set[tuple[int, int]], out: Path) -> str:
    """Returns an error text if files of finished shards are missing in the data, which means they were made again."""
    lost = finished - {_known_by(file) for file in out.glob("data/*/*.npy")}
    return f"{out}: {len(lost)} of {len(finished)} files of finished shards were made again" if lost else ""


def _known_by(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns
