"""The commands that make something, each as small as it can be and still do all it does at full size.

What is made is compared byte for byte, name by name: a leftover is a difference as a flipped bit is.
"""

import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.process import Command

SIZES = {"train": 3000, "dev": 60}
PARTS, TASKS = 8, 3
"""Shards of the training split where there are several, and tasks of an array job that make them."""

SHARDED = ("shards", "array", "beam")
"""Jobs that generate data in shards: by processes; by the tasks of an array job, without duplicates; by Apache Beam."""
GENERATING = ("generation", *SHARDED)

LINES = 160
"""Lines to decode, in windows of ten."""
SHARDS = 3
"""Of these lines."""

_BEAM = "--runner=DirectRunner --direct_num_workers=2 --direct_running_mode=multi_processing"
UPDATES, EVERY = 15, 3
_HPARAMS = (
    "hidden_size=16,filter_size=32,num_heads=2,num_hidden_layers=1,batch_size=256,max_length=24,learning_rate=0.01,"
    "learning_rate_schedule=constant,learning_rate_warmup_steps=5,extra_length=2,beam_size=2,ema_decay=0.9"
)
_WALL_CLOCK = ("created", "seal", "time", "tokens_per_second")
"""Names of what two equal runs may tell differently; the seal is of the time of its file, too."""

Made = dict[str, str]
"""What lies in a folder: path -> sha256 of what it holds."""


@dataclass(frozen=True)
class Job:
    """A command, what it needs, and what it makes.

    `materials` is read and never written: raw files, then the data and the run that an undisturbed job made of them.
    """

    name: str
    materials: Path

    @property
    def module(self) -> str:
        """The command's module, where it is started warm whatever that changes."""
        if self.name in GENERATING:
            return "t2t.cli.datagen"
        return "t2t.cli.trainer" if self.name == "training" else "t2t.cli.decoder"

    @property
    def is_cold_only(self) -> bool:
        """Returns whether no process of it starts warm: what that has imported would keep generation from forking."""
        return self.name in GENERATING

    @property
    def is_only_killed(self) -> bool:
        """Returns whether it differs from another job in what a kill leaves alone, or is over too soon for more."""
        return self.name in (*SHARDED, "merging")

    def command(self, out: Path) -> Command:
        """Returns the command that makes everything in `out`."""
        commands = {
            "training": self._training, "decoding": self._decoding, "sharding": self._sharding,
            "merging": self._merging,
        }  # fmt: skip
        return commands.get(self.name, self._generation)(out)

    def lock(self, out: Path) -> Path:
        """Returns the file that tells that a process has begun to write in `out`."""
        names = {
            "training": "run/lock", "decoding": "out/decoded.partial", "merging": "out/decoded.partial",
            "sharding": "out/decoded.shard-00001-of-00003.partial",
        }  # fmt: skip
        return out / names.get(self.name, "data/.text2text_files.lock")

    def made(self, out: Path) -> "Made":
        """Returns what a process has made in `out`."""
        return made_in(out)

    def keep_as_material(self, out: Path) -> None:
        """Gives what was made to the jobs after this one; of a shard, together with the other shards."""
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
    """Writes pairs of texts to learn, and lines to decode."""
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
    """Returns all that lies in a folder but locks, which the killed leave, and what tells of the wall's clock."""
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
    """Yields the evaluations, of each update the last that is told; what is told of training depends on the start."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = {line["step"]: line for line in lines if any(name.startswith("dev/") for name in line)}
    for step in sorted(last):
        yield json.dumps(_timeless(last[step]), sort_keys=True)


def _timeless(told: dict) -> dict:
    return {name: value for name, value in told.items() if name.rpartition("/")[2] not in _WALL_CLOCK}


def differences(wanted: Made, found: Made) -> str:
    """Returns the names in which two folders differ, or nothing."""
    names = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    said = {name: "missing" if name not in found else "left over" if name not in wanted else "other" for name in names}
    return ", ".join(f"{name} {what}" for name, what in said.items())


def finished_files(out: Path) -> set[tuple[int, int]]:
    """Returns what the files of the shards that are finished, but not yet merged, are known by: node and time."""
    records = (path for split in SIZES for path in out.glob(f"data/.*.partial/work/{split}-*/record.json"))
    return {_known_by(file) for record in records for file in record.parent.glob("*.npy")}


def remade_shards(finished: set[tuple[int, int]], out: Path) -> str:
    """Returns what is wrong where files of finished shards are none of the data: they were made a second time."""
    lost = finished - {_known_by(file) for file in out.glob("data/*/*.npy")}
    return f"{out}: {len(lost)} of {len(finished)} files of finished shards were made again" if lost else ""


def _known_by(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns
