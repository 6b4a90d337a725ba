"""Cache of the conversions of a run's checkpoints, in the run directory; for a run of a zoo, in the user's cache."""

import contextlib
import dataclasses
import functools
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import t2t
from t2t.errors import UserError
from t2t.files.atomic import LockedError, new_folder, sha256_of
from t2t.files.paths import cache_folder
from t2t.files.trust import check_inside, read_record, read_sealed, write_sealed
from t2t.files.zoo import is_in_zoo
from t2t.inference.fallback import Agreement

log = logging.getLogger("t2t")

FOLDER = "cache/ctranslate2"
"""In a run directory or a stand-in for it; it has a folder for each problem of the run."""

RECORD, TRIALS = "conversion.json", "trials.json"

MOST_TRIALS = 64
"""Maximum number of trials that are kept, the latest: a server gets requests for many kinds of searches."""


@dataclasses.dataclass(frozen=True)
class ConvertedModel:
    """What decoding must know about a model whose conversion is used instead."""

    positions: int
    """Of the conversion, for inputs and for outputs."""
    longest_sequence: int | None
    """See `t2t.models.base.SequenceModel.longest_sequence`."""


@dataclasses.dataclass(frozen=True)
class _Record:
    """The record of a conversion: what it was made from, and its files."""

    fingerprint: str
    model: ConvertedModel
    checksums: dict[str, str]
    """sha256 of each of its files, by name."""


class ConversionCache:
    """The conversion of one checkpoint, for one problem of its run.

    Args:
        run: folder of the run.
        problem: its name; each problem has its own token tables, and so its own conversions.
        checkpoint: name of the checkpoint.
        fingerprint: of the checkpoint, and of whatever else its conversion depends on.
    """

    def __init__(self, run: Path, problem: str, checkpoint: str, fingerprint: str):
        import ctranslate2

        versions = f"{fingerprint} {t2t.__version__} {ctranslate2.__version__}"
        self._fingerprint = hashlib.sha256(versions.encode()).hexdigest()
        self._run, self._checkpoint = run, checkpoint
        self._kept_in = cache_folder() / "zoo" / run.name if is_in_zoo(run) else run
        self._folder = self._kept_in / FOLDER / problem / f"{checkpoint}-{self._fingerprint[:12]}"

    @functools.cached_property
    def kept(self) -> ConvertedModel | None:
        """The stored conversion; None without one."""
        return self._find()

    def _find(self) -> ConvertedModel | None:
        """Returns the stored conversion if it is intact; removes a damaged one."""
        if not self._folder.exists():
            return None
        with contextlib.suppress(OSError, ValueError, UserError):
            record = read_record(_Record, self._read(RECORD))
            for name, checksum in record.checksums.items():
                check_inside(self._folder, self._folder / name)
                if sha256_of(self._folder / name) != checksum:
                    raise ValueError(name)
            if record.fingerprint == self._fingerprint:
                return record.model
        log.warning("%s is damaged; it is made again", self._folder)
        self._remove_folder()
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
                self._remove_folder()
            try:
                self._make(model, write)
            except (OSError, LockedError) as error:
                log.info("the conversion is not kept in %s: %s", self._folder.parent, error)
                with tempfile.TemporaryDirectory() as folder:
                    write(Path(folder))
                    yield Path(folder)
                return
        yield self._folder

    def _make(self, model: ConvertedModel, write: Callable[[Path], None]) -> None:
        with new_folder(self._folder) as folder:
            write(folder)
            checksums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
            record = dataclasses.asdict(_Record(self._fingerprint, model, checksums))
            write_sealed(folder / RECORD, record)
        self.kept = model
        self._remove_outdated()

    def get(self, what: str) -> Agreement | None:
        """Returns the result of a trial of the conversion, or None."""
        return self._trials().get(what)

    def set(self, what: str, found: Agreement) -> None:
        """Stores the result of a trial of the conversion, if possible."""
        kept = list((self._trials() | {what: found}).items())[-MOST_TRIALS:]
        trials = {name: dataclasses.asdict(one) for name, one in kept}
        with contextlib.suppress(OSError):
            if self._folder.is_dir():
                write_sealed(self._folder / TRIALS, trials)

    def _trials(self) -> dict[str, Agreement]:
        try:
            return {name: read_record(Agreement, one) for name, one in self._read(TRIALS).items()}
        except (OSError, ValueError):
            return {}

    def _remove_folder(self) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self._folder)

    def _read(self, name: str) -> dict[str, Any]:
        check_inside(self._kept_in, self._folder / name)
        return read_sealed(self._folder / name)

    def _remove_outdated(self) -> None:
        """Removes conversions of earlier contents of the checkpoint, and of deleted checkpoints."""
        for folder in self._folder.parent.iterdir():
            checkpoint = folder.name.rpartition("-")[0]
            is_gone = not (self._run / "checkpoints" / checkpoint).exists()
            is_other = folder.is_dir() and folder != self._folder and not folder.name.startswith(".")
            if is_other and (checkpoint == self._checkpoint or is_gone):
                shutil.rmtree(folder, ignore_errors=True)
