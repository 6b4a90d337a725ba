"""What problem files touch of TensorFlow 1, without loading TensorFlow: files, logs and flags; and their `os`.

Every other name is that of `tensorflow.compat.v1`, or else of `tensorflow`, which load when one is looked up.
"""

import glob
import logging as python_logging
import os
import re
import shutil
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import IO, Any

from absl import flags

from t2t.compat.tensor2tensor.placeholders import placeholder
from t2t.errors import UserError

log = python_logging.getLogger("t2t")


def listed(path: Any = ".") -> list[str]:
    """Returns the names in a folder without this project's data, which a plug-in that reads all files would read."""
    names = sorted(os.listdir(path))
    return [name for name in names if not (_ASIDE.fullmatch(str(name)) or _is_data(os.path.join(path, name)))]


_ASIDE = re.compile(r"\..*\.(partial|lock)")
"""Names beside generated data while it is made."""


def _is_data(path: str) -> bool:
    return os.path.exists(os.path.join(path, "manifest.json"))


class _Os(ModuleType):
    """The module `os`, whose `listdir` leaves out this project's data."""

    listdir = staticmethod(listed)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


OS = _Os("os", os.__doc__)


class _File:
    """`tf.gfile.GFile`: a file of text in UTF-8, or of bytes in modes with `b`; opened when it is first used."""

    def __init__(self, name: Any, mode: str = "r"):
        self.name, self.mode = os.fspath(name), mode
        self._opened: IO[Any] | None = None

    def _file(self) -> IO[Any]:
        if self._opened is None:
            encoding = None if "b" in self.mode else "utf-8"
            self._opened = open(self.name, self.mode, encoding=encoding)  # noqa: SIM115 - closed by close
        return self._opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file(), name)

    def __enter__(self) -> "_File":
        self._file()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file())

    def __next__(self) -> Any:
        return next(self._file())

    def read(self, n: int = -1) -> Any:
        """Returns the next n characters or bytes, or all."""
        return self._file().read(n)

    def size(self) -> int:
        """Returns the size in bytes."""
        return os.stat(self.name).st_size

    def close(self) -> None:
        """Closes the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _copy(source: str, target: str, overwrite: bool = False) -> None:
    _check_free(target, overwrite)
    shutil.copyfile(source, target)


def _rename(source: str, target: str, overwrite: bool = False) -> None:
    _check_free(target, overwrite)
    os.replace(source, target)


def _check_free(target: str, overwrite: bool) -> None:
    if os.path.exists(target) and not overwrite:
        raise FileExistsError(f"{target} exists")


def _glob(patterns: Any) -> list[str]:
    listed = patterns if isinstance(patterns, list | tuple) else [patterns]
    return sorted(path for pattern in listed for path in glob.glob(os.fspath(pattern)))


def _walk(top: str, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    return os.walk(top, topdown=in_order)


gfile = SimpleNamespace(
    GFile=_File, Open=_File, FastGFile=_File, Exists=os.path.exists, IsDirectory=os.path.isdir, Glob=_glob,
    ListDirectory=listed, MkDir=os.mkdir,
    MakeDirs=lambda folder: os.makedirs(folder, exist_ok=True), Remove=os.remove, DeleteRecursively=shutil.rmtree,
    Copy=_copy, Rename=_rename, Walk=_walk, Stat=lambda path: SimpleNamespace(length=os.stat(path).st_size),
)  # fmt: skip
"""`tf.gfile`, for files of this machine."""
_io_gfile = SimpleNamespace(
    GFile=_File, exists=os.path.exists, isdir=os.path.isdir, glob=_glob, listdir=gfile.ListDirectory, mkdir=os.mkdir,
    makedirs=gfile.MakeDirs, remove=os.remove, rmtree=shutil.rmtree, copy=_copy, rename=_rename, walk=_walk,
    join=os.path.join, stat=gfile.Stat,
)  # fmt: skip

logging = SimpleNamespace(
    DEBUG=python_logging.DEBUG, INFO=python_logging.INFO, WARN=python_logging.WARNING, ERROR=python_logging.ERROR,
    FATAL=python_logging.CRITICAL, debug=log.debug, info=log.info, warn=log.warning, warning=log.warning,
    error=log.error, fatal=log.critical, log=log.log, log_every_n=lambda level, text, n, *args: None,
    log_first_n=lambda level, text, n, *args: log.log(level, text, *args), set_verbosity=lambda level: None,
    get_verbosity=lambda: python_logging.INFO,
)  # fmt: skip
"""`tf.logging`: the log of this project, whose level its commands choose."""


class _Flags(ModuleType):
    """`tf.flags`: flags that a plug-in defines have their defaults, since the commands here know them no more."""

    def __init__(self) -> None:
        super().__init__("tensorflow.flags")
        self.FLAGS = flags.FlagValues()
        self.FLAGS.mark_as_parsed()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("DEFINE_"):
            return getattr(flags, name)
        define = getattr(flags, {"DEFINE_bool": "DEFINE_boolean"}.get(name, name))
        return lambda *args, **kwargs: define(*args, **{"flag_values": self.FLAGS, **kwargs})


class _TensorFlow(ModuleType):
    """The module that a plug-in of Tensor2Tensor imports as `tensorflow`."""

    def __init__(self) -> None:
        super().__init__("tensorflow", __doc__)
        self.gfile, self.logging, self.flags = gfile, logging, _Flags()
        self.app = SimpleNamespace(run=_not_a_command, flags=self.flags)
        self.compat = SimpleNamespace(v1=self, as_text=_as_text, as_str=_as_text, as_bytes=_as_bytes)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "io":
            return _Io()
        if name in ("contrib", "estimator"):
            return _CONTRIB if name == "contrib" else _ESTIMATOR
        import tensorflow

        for module in (tensorflow.compat.v1, tensorflow):
            if hasattr(module, name):
                return getattr(module, name)
        return placeholder(f"tensorflow.{name}")


class _Io:
    """`tf.io`: its `gfile` is the one above."""

    gfile = _io_gfile

    def __getattr__(self, name: str) -> Any:
        import tensorflow

        return getattr(tensorflow.io, name)


class _Partly:
    """A module of TensorFlow 1 that is gone: a few of its names, and placeholders for the others."""

    def __init__(self, name: str, **known: Any):
        self._name = name
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(f"{self._name}.{name}")


class _Batches:
    """`tf.contrib.eager.Iterator`: the examples of a data set one after the other."""

    def __init__(self, dataset: Any):
        self._examples = iter(dataset)

    def next(self) -> Any:
        """Returns the next example."""
        return next(self._examples)


def _restored(path: Any) -> Any:
    from t2t.compat.tensor2tensor.trained import restored

    return restored(path)


_EAGER = _Partly(
    "tensorflow.contrib.eager", enable_eager_execution=lambda *args, **kwargs: None, Iterator=_Batches,
    restore_variables_on_create=_restored,
)  # fmt: skip
_CONTRIB = _Partly("tensorflow.contrib", eager=_EAGER)
_MODES = SimpleNamespace(TRAIN="train", EVAL="eval", PREDICT="infer")
_ESTIMATOR = _Partly("tensorflow.estimator", ModeKeys=_MODES)


def _not_a_command(*args: Any, **kwargs: Any) -> None:
    raise UserError("tf.app.run: a plug-in is imported, not run", "call it below `if __name__ == '__main__'`")


def _as_text(value: Any, encoding: str = "utf-8") -> str:
    return value.decode(encoding) if isinstance(value, bytes) else str(value)


def _as_bytes(value: Any, encoding: str = "utf-8") -> bytes:
    return value.encode(encoding) if isinstance(value, str) else bytes(value)


TENSORFLOW = _TensorFlow()

__all__ = ["OS", "TENSORFLOW", "gfile", "listed", "logging"]
