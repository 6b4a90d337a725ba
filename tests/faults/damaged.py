"""A small run, its data and a half-written output, made without training, and the readers of each of their files."""

import dataclasses
import logging
from collections.abc import Callable, Hashable
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from t2t.checkpoints.averaging import average_checkpoints, load_for_decoding
from t2t.checkpoints.checkpoint import PARTS, Checkpoint
from t2t.checkpoints.compatibility import vocabularies_state
from t2t.checkpoints.dev_outputs import DevOutputs, add_dev_outputs, read_dev_outputs
from t2t.checkpoints.layout import Best
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.data.generation.generate import generate
from t2t.errors import T2TError
from t2t.files.output import PartialFile
from t2t.problems.base import Problem
from t2t.runs.config import RunConfig
from t2t.runs.data import OpenData, open_data
from t2t.runs.names import get_problem
from tests.many_runs import create_run

VOCAB_KINDS = ("token", "sentencepiece", "subword", "byte")
STEPS = (2, 4)
SIZES = {"train": 50, "dev": 6, "test": 4}


@dataclasses.dataclass(frozen=True)
class Tree:
    """A folder to damage: raw files, data, a run and a partial output."""

    folder: Path
    problem: Problem

    @property
    def store(self) -> CheckpointStore:
        """The checkpoints of the run."""
        return CheckpointStore(RunDir.open(self.folder / "run").checkpoints_folder)

    def open_data(self) -> OpenData:
        """Opens the data, as training and evaluation do."""
        options = self.problem.options.changed()
        request = RunConfig(problem=self.problem.name, problem_options=options, data_dir=str(self.folder / "data"))
        return open_data(request, get_problem(request.problem, options))

    @property
    def output(self) -> PartialFile:
        """The partial output of an interrupted decoding."""
        return PartialFile(self.folder / "out", "of this job")


def make(folder: Path, vocab_kind: str) -> Tree:
    """Makes a tree whose two vocabularies, one for each side, are of a given kind."""
    problem = get_problem("text2text_files", _write_raw(folder / "raw") | {"vocab_kind": vocab_kind})
    generate(problem, folder / "data", folder, workers=1)
    tree = Tree(folder, problem)
    problem = tree.open_data().problem
    options = problem.options.changed()
    run = create_run(folder / "run", problem.name, problem.spec(), problem.encoders, problem_options=options)
    for step in STEPS:
        rng = np.random.default_rng(step)
        parts = {part: {"a": rng.normal(size=(3, 4)), "b": rng.normal(size=5)} for part in PARTS}
        state = {
            "seed": 0,
            "data": {"epoch": 0, "window": 0, "batch": step},
            **vocabularies_state(run.record.vocabularies),
        }
        tree.store.save(step, **parts, state=state)
        run.append_metrics(step, {"dev/loss": 1 / step})
        add_dev_outputs(run.dev_outputs_file, [DevOutputs.pick(step, "", ["a"], ["b"], [f"c {step}"])])
    tree.store.mark_best(2, "loss", 0.5)
    tree.store.rank_best([Best(2, "loss", 0.5), Best(4, "loss", 0.75)])
    average_checkpoints(tree.store, STEPS)
    with tree.output as output:
        output.write(b"one\ntwo\n", 2, {"cut": 1})
    return tree


def _write_raw(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True)
    options = {}
    for split, size in SIZES.items():
        for side, word in (("source", "wort  {} a"), ("target", "word {}  b")):  # token vocabularies lose double spaces
            path = folder / f"{split}.{side}"
            path.write_text("".join(word.format(n) + "\n" for n in range(size)))
            options[f"{split}_{side}"] = str(path)
    return options


# === Readers ===
def resumed(tree: Tree) -> Hashable:
    """The checkpoint from which training resumes."""
    return seen(tree.store.load())


def decoded_with(tree: Tree) -> Hashable:
    """The record, vocabularies and weights, as every command that uses a run reads them."""
    run = RunDir.open(tree.folder / "run")
    encoders = {name: encoder.fingerprint for name, encoder in run.encoders().items()}
    return repr(run.record.to_dict()), repr(encoders), *seen(tree.store.load_model())


def averaged(tree: Tree) -> Hashable:
    """The mean of checkpoints."""
    return seen(tree.store.load_model("averaged"))


def best(tree: Tree) -> Hashable:
    """The best checkpoint."""
    return seen(tree.store.load("best"))


def ranked(tree: Tree) -> Hashable:
    """The mean of the best checkpoints."""
    return seen(load_for_decoding(tree.store, "best:2"))


def trained_from(tree: Tree) -> Hashable:
    """The fingerprints, ids and texts of the data."""
    data = tree.open_data()
    found = [data.fingerprint, *(encoder.fingerprint for encoder in data.problem.encoders.values())]
    for reader in data.readers.values():
        for feature in reader.features:
            values, lengths = reader.read(np.arange(len(reader)), feature)
            found += [values.tobytes(), lengths.tobytes(), repr(reader.texts(feature))]
    return tuple(found)


def continued(tree: Tree) -> Hashable:
    """The number of lines and the notes from which an interrupted decoding resumes; None if it starts again."""
    with tree.output as output:
        return (output.lines, repr(output.notes)) if output.lines else None


def figures(tree: Tree) -> Hashable:
    """The log of figures, in which damaged lines are skipped: neither training nor outputs depend on it."""
    for line in RunDir.open(tree.folder / "run").metrics():
        assert isinstance(line["step"], int)
    return None


def outputs(tree: Tree) -> Hashable:
    """The log of dev outputs, in which damaged lines are skipped, too."""
    for one in read_dev_outputs(RunDir.open(tree.folder / "run").dev_outputs_file):
        assert len(one.outputs) == len(one.references)
    return None


def seen(checkpoint: Checkpoint) -> tuple:
    """Step, arrays and state of a checkpoint in comparable form."""
    parts = [checkpoint.model, checkpoint.optimizer, checkpoint.ema]
    arrays = [{name: array.tobytes() for name, array in sorted((part or {}).items())} for part in parts]
    return checkpoint.step, repr(arrays), repr(checkpoint.state)


Reader = Callable[[Tree], Hashable]

READERS: dict[str, tuple[Reader, ...]] = {
    "run/run.json": (decoded_with, resumed),
    "run/vocab/*": (decoded_with,),
    "run/checkpoints/step-*/*": (resumed, decoded_with, best),
    "run/checkpoints/averaged/*": (averaged,),
    "run/checkpoints/latest.json": (resumed, decoded_with),
    "run/checkpoints/best.json": (best, resumed),
    "run/checkpoints/ranking.json": (ranked, resumed),
    "run/metrics.jsonl": (figures,),
    "run/dev_outputs.jsonl": (outputs,),
    "data/text2text_files/*": (trained_from,),
    "out.partial*": (continued,),
}
"""Patterns of file names and their readers; a new kind of file needs a reader here, or tests fail."""

NOT_DAMAGED = ("raw/*", "data/.*.lock", "run/lock", "run/events/*")
"""Raw files of the user, lock files without content, and files that only TensorBoard reads."""


def kind_of(name: str) -> str | None:
    """Returns the pattern of a file, None for one that is not damaged.

    Raises:
        LookupError: `READERS` has no reader for it.
    """
    if any(fnmatch(name, pattern) for pattern in NOT_DAMAGED):
        return None
    for pattern in READERS:
        if fnmatch(name, pattern):
            return pattern
    raise LookupError(f"{name}: a new kind of file; say in READERS who reads it")


# === Verdicts ===
class _Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the message."""
        self.texts.append(record.getMessage())


def verdict(reader: Reader, tree: Tree, usual: Hashable, earlier: Hashable, damaged: list[Path]) -> str:
    """Reads a damaged tree; returns an error text, "" if the reader behaves correctly.

    A correct reader reports the damaged file in an error, or reads what was written. It may also read the checkpoint
    before the latest one, with a warning that names the damage, and start a partial output again.
    """
    warnings, log = _Warnings(), logging.getLogger("t2t")
    log.addHandler(warnings)
    try:
        found = reader(tree)
    except T2TError as error:
        if error.exit_status == 2 and "; " in str(error) and _names(str(error), damaged):
            return ""
        return f"an error that does not tell: {error}"
    except Exception as error:  # a user would see a traceback
        return f"{type(error).__name__}: {error}"
    finally:
        log.removeHandler(warnings)
    if found == usual or (found is None and reader is continued):
        return ""
    if found != earlier:
        return "something else was read, and nothing was said"
    return "" if _names(" ".join(warnings.texts), damaged) else "the checkpoint before, without a warning"


def _names(text: str, files: list[Path]) -> bool:
    return any(str(place) in text for file in files for place in (file, file.parent, file.parent.parent))
