"""Cache of the conversions of a run's checkpoints: in its directory, or in the user's if that is read-only or of a zoo.

In each, next to the folder of a conversion, are two files: what the model itself answers to a few inputs, and how the
conversion compares with that. Names hold no paths of runs: in the user's cache, a conversion is found by what it was
made from, wherever the run is.

Legend: R inputs.
"""

import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import t2t
from t2t.errors import UserError
from t2t.files.atomic import LockedError, made_folder, new_folder, sha256_of
from t2t.files.paths import cache_folder, is_in_zoo
from t2t.files.trust import check_inside, read_record, read_sealed, write_sealed

log = logging.getLogger("t2t")

FOLDER = "cache/ctranslate2"
"""In a run directory; it has a folder for each problem of the run."""

RECORD, TRIALS, REFERENCE = "conversion.json", "trials.json", "reference.json"

MOST_TRIALS = 64
"""Maximum number of trials that are kept, the latest: a server gets requests for many kinds of searches."""
_FINGERPRINT = "fingerprint"
"""Entry of the files of trials and references: what they belong to."""
UNUSED_S = 90 * 24 * 3600
"""Seconds after which a conversion in the user's cache that was not used is removed."""


# === What is kept besides the conversion: what the model answers, and how the conversion agrees ===

Ids = list[list[int]]


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How the answers of two engines compare."""

    rows: int
    identical: int
    """Inputs with the same output, id by id; of given outputs, all."""
    near_ties: int
    """Inputs with another output that is better, or worse by at most `t2t.inference.fallback.NEAR_TIE`."""
    difference: float
    """Of log-probabilities of the same output, in nats per token: the largest of all outputs; of given outputs, the
    square root of the mean square over all tokens."""

    def __str__(self) -> str:
        ties = f" and {self.near_ties} as good" if self.near_ties else ""
        return (
            f"{self.identical} of {self.rows} outputs are equal{ties}, log-probabilities differ by "
            f"{self.difference:.1g} nats a token"
        )


@dataclasses.dataclass(frozen=True)
class Answers:
    """The model's best output for each input: its ids, score and log-probability, R of each."""

    ids: Ids
    scores: list[float]
    log_probs: list[float]


@dataclasses.dataclass(frozen=True)
class Questions:
    """Inputs, as the model reads them, and given outputs."""

    search_rows: Ids
    score_rows: Ids
    targets: Ids
    """As many as `score_rows`."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """What a model answers."""

    longest_sequence: int | None
    """See `t2t.models.base.SequenceModel.longest_sequence`."""
    questions: Questions
    log_probs: list[list[float]]
    """Of each token of each of `targets`."""
    searches: dict[str, Answers] = dataclasses.field(default_factory=dict)
    """By kind of search, see `t2t.inference.fallback.kind_of_search`."""


# === The cache ===


@dataclasses.dataclass(frozen=True)
class ConvertedModel:
    """What decoding must know about a model whose conversion is used instead."""

    positions: int
    """Of the conversion, for inputs and for outputs."""
    longest_sequence: int | None
    """See `t2t.models.base.SequenceModel.longest_sequence`."""


@dataclasses.dataclass(frozen=True)
class _Home:
    """A place for conversions."""

    root: Path
    """Files that are read lie inside of it."""
    folder: Path
    """Of the conversions of a problem."""
    is_run: bool
    """Whether it is in the run's directory, not in the user's cache."""
    is_written: bool = True
    """Whether anything may be changed there; what lies beside a run of a zoo is only read."""

    def read(self, name: str) -> dict[str, Any]:
        """Returns the content of a sealed file; raises OSError, ValueError or UserError."""
        check_inside(self.root, self.folder / name)
        return read_sealed(self.folder / name)

    def note_use(self, name: str) -> None:
        """Keeps an entry of the user's cache for longer."""
        if not self.is_run:
            with contextlib.suppress(OSError):
                os.utime(self.folder / name)


@dataclasses.dataclass(frozen=True)
class _Record:
    """The record of a conversion: what it was made from, and its files."""

    fingerprint: str
    model: ConvertedModel
    checksums: dict[str, str]
    """sha256 of each of its files, by name."""


class ConversionCache:
    """The conversion of one checkpoint, for one problem of its run, and how it compares with the model.

    Args:
        run: folder of the run.
        problem: its name; each problem has its own token tables, and so its own conversions.
        checkpoint: name of the checkpoint.
        fingerprint: of the checkpoint, and of whatever else its conversion depends on.
    """

    def __init__(self, run: Path, problem: str, checkpoint: str, fingerprint: str):
        import ctranslate2

        versions = f"{fingerprint} {t2t.__version__} {ctranslate2.__version__}"
        digests = (hashlib.sha256(text.encode()).hexdigest() for text in (versions, fingerprint))
        self._fingerprint, self._model_fingerprint = digests
        self._run, self._checkpoint = run, checkpoint
        self._name = f"{checkpoint}-{self._fingerprint[:12]}"
        self._model_name = f"{checkpoint}-{self._model_fingerprint[:12]}"  # the same for all versions of CTranslate2
        own = cache_folder()
        beside = _Home(run, run / FOLDER / problem, True, is_written=not is_in_zoo(run))
        self._homes = beside, _Home(own, own / "ctranslate2" / problem, False)
        self._written_homes = [home for home in self._homes if home.is_written]
        self._home = beside

    @functools.cached_property
    def kept(self) -> ConvertedModel | None:
        """The stored conversion; None without one."""
        return self._find()

    @property
    def known(self) -> ConvertedModel | None:
        """What is known of the model without building it, from the conversion or the model's answers; None if neither.

        Both are stored only for models that CTranslate2 supports.
        """
        if self.kept is not None:
            return self.kept
        reference = self.reference
        return None if reference is None else ConvertedModel(0, reference.longest_sequence)

    def _find(self) -> ConvertedModel | None:
        """Returns the first stored conversion that is intact; removes damaged ones."""
        for home in self._homes:
            if (home.folder / self._name).exists():
                if (found := self._read_model(home)) is not None:
                    self._home = home
                    home.note_use(self._name)
                    return found
                log.warning("%s is damaged; it is made again", home.folder / self._name)
                self._remove_model(home)
        return None

    def _read_model(self, home: _Home) -> ConvertedModel | None:
        """Returns a stored conversion if it is intact."""
        folder = home.folder / self._name
        with contextlib.suppress(OSError, ValueError, UserError):
            record = read_record(_Record, home.read(f"{self._name}/{RECORD}"))
            for name, checksum in record.checksums.items():
                check_inside(folder, folder / name)
                if sha256_of(folder / name) != checksum:
                    raise ValueError(name)
            if record.fingerprint == self._fingerprint:
                return record.model
        return None

    @contextlib.contextmanager
    def opened(self, model: ConvertedModel, write: Callable[[Path], None]) -> Iterator[Path]:
        """Yields a folder with the conversion; a temporary one if it cannot be stored.

        Args:
            model: what to convert, unless a conversion with enough positions is stored.
            write: writes the conversion into an existing folder.
        """
        if self.kept is None:
            self.kept = self._find()  # another process may have made it meanwhile
        if self.kept is None or self.kept.positions < model.positions:
            log.info("converting %s for CTranslate2", self._checkpoint)
            if self.kept is not None:
                self.kept = None
                self._remove_model(self._home)
            if not self._make(model, write):
                with tempfile.TemporaryDirectory() as folder:
                    write(Path(folder))
                    yield Path(folder)
                return
        yield self._home.folder / self._name

    def _make(self, model: ConvertedModel, write: Callable[[Path], None]) -> bool:
        """Stores a conversion in the first place that can be written; returns whether there is one."""
        for home in self._written_homes:
            try:
                with new_folder(home.folder / self._name) as folder:
                    write(folder)
                    checksums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
                    write_sealed(folder / RECORD, dataclasses.asdict(_Record(self._fingerprint, model, checksums)))
            except (OSError, LockedError) as error:
                log.info("the conversion is not kept in %s: %s", home.folder, error)
                if isinstance(error, LockedError):  # another process is making it
                    return False
            else:
                self.kept, self._home = model, home
                self._remove_outdated(home)
                return True
        return False

    def _remove_model(self, home: _Home) -> None:
        if home.is_written:
            _remove(home.folder / self._name)

    @property
    def reference(self) -> Reference | None:
        """What the model itself has answered, for comparisons; None without a record."""
        for content in self._contents(f"{self._model_name}.{REFERENCE}", self._model_fingerprint):
            with contextlib.suppress(ValueError):
                return read_record(Reference, content)
        return None

    def keep_reference(self, reference: Reference) -> None:
        """Stores what the model has answered, if possible."""
        content = dataclasses.asdict(reference)
        self._write(f"{self._model_name}.{REFERENCE}", self._model_fingerprint, content)

    def get(self, what: str) -> Agreement | None:
        """Returns the result of a trial of the conversion, or None."""
        return self._trials().get(what)

    def set(self, what: str, found: Agreement) -> None:
        """Stores the result of a trial of the conversion, if possible."""
        kept = list((self._trials() | {what: found}).items())[-MOST_TRIALS:]
        self._write(f"{self._name}.{TRIALS}", self._fingerprint, {name: dataclasses.asdict(one) for name, one in kept})

    def _trials(self) -> dict[str, Agreement]:
        for content in self._contents(f"{self._name}.{TRIALS}", self._fingerprint):
            with contextlib.suppress(ValueError):
                return {name: read_record(Agreement, one) for name, one in content.items()}
        return {}

    def _contents(self, name: str, fingerprint: str) -> Iterator[dict[str, Any]]:
        """Yields the contents of a file in each place that has it, the one in use first."""
        for home in sorted(self._homes, key=lambda home: home is not self._home):
            with contextlib.suppress(OSError, ValueError, UserError):
                content = home.read(name)
                if content.pop(_FINGERPRINT, None) == fingerprint:
                    home.note_use(name)
                    yield content

    def _write(self, name: str, fingerprint: str, content: dict[str, Any]) -> None:
        """Writes a file next to the conversion in use, or where that is read-only, into the user's cache."""
        for home in sorted(self._written_homes, key=lambda home: home is not self._home):
            with contextlib.suppress(OSError), made_folder(home.folder):
                write_sealed(home.folder / name, {_FINGERPRINT: fingerprint, **content})
                return

    def _remove_outdated(self, home: _Home) -> None:
        """Removes what is of earlier contents of the checkpoint, of deleted checkpoints, or was not used for long."""
        for path in home.folder.iterdir():
            is_own = path.name.startswith((self._name, self._model_name))
            if path.name.startswith(".") or is_own:
                continue
            checkpoint = path.name.rpartition("-")[0]
            with contextlib.suppress(OSError):
                is_outdated = time.time() - path.stat().st_mtime > UNUSED_S
                if home.is_run:
                    is_gone = not (self._run / "checkpoints" / checkpoint).exists()
                    is_outdated = is_gone or checkpoint == self._checkpoint
                if is_outdated:
                    _remove(path)


def _remove(path: Path) -> None:
    """Removes a file or a folder, if possible."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
