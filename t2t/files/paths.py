"""Paths that users name: local ones, names of runs in a zoo, or addresses of object stores.

`zoo:ende_numbers` is a trained run that is only read. A zoo is a folder whose folders are runs; names are looked up in
those of `--zoo_dir`, or of the variable `T2T_ZOO`, and then in the package. What is made from such a run, for example a
conversion, is kept elsewhere.

An object store has a mirror on this machine: `s3://bucket/data` is
mirrored in `<cache>/files/s3/bucket/data`; `t2t.files.remote` synchronizes the two. All other code works on local
paths.
"""

import contextlib
import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t.errors import UnknownNameError, UserError, did_you_mean

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_PATTERN = re.compile(r"[*?[]")
_ONE_CHARACTER = r"\?|\[!?\]?[^]/]*\]"
_WILDCARDS = re.compile(rf"((?:\*|{_ONE_CHARACTER})+)")
"""Adjacent wildcards of a pattern, which count as one."""
_OF_THIS_MACHINE = ("file", "local")
"""Schemes of fsspec for local files."""
_NO_HOST = "_"
"""Stands for the empty host of `hdfs:///data` in the path of a mirror."""


StrPath = str | os.PathLike[str]
"""A path as users give it in Python."""
Matched = tuple[str, ...] | None
"""What the wildcards of a pattern match, apart from a final `.gz`; None for a file without a pattern."""


def cache_folder() -> Path:
    """Returns the folder for files that can be made again: `$T2T_CACHE`, else `$XDG_CACHE_HOME/t2t` or `~/.cache/t2t`.

    A relative `XDG_CACHE_HOME` is ignored, as its specification demands.
    """
    of_user = os.environ.get("XDG_CACHE_HOME", "")
    usual = os.path.join(of_user if os.path.isabs(of_user) else "~/.cache", "t2t")
    return Path(os.path.realpath(os.path.expanduser(os.environ.get("T2T_CACHE") or usual)))


def programs_folder() -> Path:
    """Returns the folder of the programs that JAX has compiled."""
    return cache_folder() / "jax"


def mirrors_folder() -> Path:
    """Returns the folder of the mirrored files; it has a subfolder for each scheme."""
    return cache_folder() / "files"


def check_local(path: str | os.PathLike[str], flag: str = "") -> None:
    """Refuses addresses of object stores where only a local path is supported.

    Args:
        path: as the user gave it; `pathlib` removes the second slash.
        flag: name of the flag that it was given for, for the message.

    Raises:
        UserError: it begins with a scheme.
    """
    if found := _scheme(path):
        raise _unsupported(os.fspath(path), found, flag)


def check_address(path: str | os.PathLike[str], flag: str = "") -> None:
    """Checks a local path or an address of an object store.

    Raises:
        UserError: fsspec does not know the scheme, or the address has a part such as `..`.
    """
    scheme = _scheme(path)
    if not scheme:
        return
    text = os.fspath(path)
    if scheme in _OF_THIS_MACHINE or not _is_known(scheme):
        raise _unsupported(text, scheme, flag)
    if any(part in ("", ".", "..") for part in _parts(text)[1:]):
        raise UserError(f"{f'--{flag}=' if flag else ''}{text}: it has empty parts, . or ..", "leave them out")


def local_path(path: str | os.PathLike[str]) -> Path:
    """Returns the local path for a user's path: expands `~`, finds runs in the zoo and the mirrors of object stores.

    Raises:
        UserError: see `check_address` and `zoo_path`; or `~name` is not the home folder of a user.
    """
    if names_zoo(path):
        return zoo_path(str(path))
    scheme = _scheme(path)
    if not scheme:
        try:
            return Path(path).expanduser()
        except RuntimeError:
            raise UserError(f"{path}: there is no home folder of that name", "write the path without ~") from None
    check_address(path)
    host, *others = _parts(os.fspath(path))
    return mirrors_folder().joinpath(scheme, host or _NO_HOST, *others)


def address_of(path: str | os.PathLike[str]) -> str | None:
    """Returns the address that a path in a mirror stands for; None for any other path."""
    root = os.path.join(mirrors_folder(), "")
    text = os.path.abspath(path)
    scheme, _, rest = text.removeprefix(root).partition("/")
    if not text.startswith(root) or not rest:
        return None
    host, slash, others = rest.partition("/")
    return f"{scheme}://{'' if host == _NO_HOST else host}{slash}{others}"


def to_record(path: str | os.PathLike[str]) -> str:
    """Returns a path in the form for records: an address, a name in the package's zoo, or the path without links."""
    return address_of(path) or name_in_package(path) or os.path.realpath(path)


def with_addresses(text: str) -> str:
    """Returns a message with the paths of mirrors replaced by their addresses."""
    root = os.path.join(mirrors_folder(), "")
    if root not in text:
        return text
    return re.sub(re.escape(root) + rf"([A-Za-z][A-Za-z0-9+.-]+)/({_NO_HOST}(?=/))?", r"\1://", text)


def named_files(names: str | os.PathLike[str]) -> list[Path]:
    """Returns the absolute paths of the files that a user named: one, or several with commas between them.

    A name may be a pattern such as `part-*.en`; it is replaced by the matching files, sorted by what its wildcards
    match, so that `euro*.en` and `euro*.fr` have one order; it is kept if there are none. The name of an existing file
    is neither split at commas nor taken for a pattern.

    Raises:
        UserError: see `check_address`; or an address has `*` or `?`, since patterns match local files only.
    """
    return [path for path, _ in matched_files(names)]


def matched_files(names: str | os.PathLike[str]) -> list[tuple[Path, Matched]]:
    """Returns the files as `named_files`, each with what the wildcards of its pattern match."""
    text = os.fspath(names)  # a list may be longer than a name can be, which `Path.is_file` raises for
    if "," not in text or ("://" not in text and os.path.isfile(local_path(text))):
        return _matches(local_path(text).absolute())
    return [path for part in text.split(",") if part.strip() for path in _matches(local_path(part.strip()).absolute())]


def join_names(paths: Sequence[Path]) -> str:
    """Joins the names of files with commas, so that `named_files` can read them.

    Raises:
        UserError: one of several names contains a comma.
    """
    names = [str(path) for path in paths]
    if len(names) > 1 and (wrong := next((name for name in names if "," in name), None)):
        raise UserError(f"{wrong}: commas are between the names of files, and this one has a comma", "rename it")
    return ",".join(names)


def _matches(path: Path) -> list[tuple[Path, Matched]]:
    if address := address_of(path):  # the mirror has only some of the store's files
        if set("*?") & set(address):
            raise UserError(
                f"{address}: a pattern matches files of this machine only",
                "name each file of the store, with commas between them",
            )
        return [(path, None)]
    if not _PATTERN.search(str(path)) or os.path.exists(path):
        return [(path, None)]
    found = {name: _matched(str(path), name) for name in glob.glob(str(path))}
    return [(Path(name), found[name]) for name in sorted(found, key=lambda name: (found[name], name))] or [(path, None)]


def _matched(pattern: str, name: str) -> tuple[str, ...]:
    pieces = _WILDCARDS.split(pattern)  # wildcards are at odd positions
    pieces[::2] = map(re.escape, pieces[::2])
    pieces[1::2] = (f"({re.sub(_ONE_CHARACTER, '.', piece).replace('*', '.*')})" for piece in pieces[1::2])
    found = re.fullmatch("".join(pieces), name, re.DOTALL)
    groups = found.groups() if found else ()
    if groups and not pieces[-1]:
        groups = (*groups[:-1], groups[-1].removesuffix(".gz"))
    return groups[:-1] if groups and not groups[-1] else groups


def is_unknown_home(path: str) -> bool:
    """Returns whether a path begins with the home folder of an unknown user, e.g. `~nobody/data`."""
    return path.startswith("~") and os.path.expanduser(path).startswith("~")


def _scheme(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    found = _SCHEME.match(text) if isinstance(text, str) else None
    return found[1] if found else ""


def _is_known(scheme: str) -> bool:
    from fsspec import available_protocols  # slow to import, and not needed for local paths

    return scheme in available_protocols()


def _parts(address: str) -> list[str]:
    """Returns host and names; `pathlib` makes `s3:/bucket` of `s3://bucket`."""
    rest = address.partition(":/")[2]
    return rest.removeprefix("/").rstrip("/").split("/")


def _unsupported(text: str, scheme: str, flag: str) -> UserError:
    return UserError(
        f"{f'--{flag}=' if flag else ''}{text}: paths with {scheme}:// are not supported",
        "name a path of this machine, such as the folder where that storage is mounted",
    )


ZOO_PREFIX = "zoo:"
ZOO_VARIABLE = "T2T_ZOO"
ZOO_IN_PACKAGE = Path(os.path.realpath(__file__)).parents[1] / "zoo"
"""The folder of the runs that come with the package."""


def names_zoo(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path that a user gave is the name of a run in a zoo, or of a file in it."""
    return str(path).startswith(ZOO_PREFIX)


def zoo_folders() -> list[Path]:
    """Returns the folders in which names are looked up, in order."""
    named = [text.strip() for text in os.environ.get(ZOO_VARIABLE, "").split(",")]
    return [*(Path(os.path.realpath(os.path.expanduser(text))) for text in named if text), ZOO_IN_PACKAGE]


def zoo_runs() -> dict[str, Path]:
    """Returns the folder of each run by its name, sorted; of several with a name, the first that is found.

    Raises:
        UserError: a folder of the zoo does not exist.
    """
    found: dict[str, Path] = {}
    for folder in zoo_folders():
        if not folder.is_dir():
            raise UserError(
                "there is no such folder", f"correct it, or the variable {ZOO_VARIABLE}", option="zoo_dir", value=folder
            )
        for path in folder.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                found.setdefault(path.name, path)
    return dict(sorted(found.items()))


def zoo_path(text: str) -> Path:
    """Returns the path for `zoo:NAME` or `zoo:NAME/file`.

    Raises:
        UnknownNameError: there is no run of that name.
        UserError: the rest of the path leads out of it.
    """
    name, *rest = text.removeprefix(ZOO_PREFIX).rstrip("/").split("/")
    runs = zoo_runs()
    if name not in runs:
        near = did_you_mean(name, runs) if name else ""
        raise UnknownNameError(
            f"{text}: the zoo has no run {name!r}; {near}it has {', '.join(runs) or 'none'}",
            f"name one of them, or the folder of others with --zoo_dir or the variable {ZOO_VARIABLE}",
        )
    if any(part in ("", ".", "..") for part in rest):
        raise UserError(f"{text}: its path has empty parts, . or ..", "leave them out")
    return runs[name].joinpath(*rest)


def name_in_package(path: str | os.PathLike[str]) -> str | None:
    """Returns `zoo:NAME/file` for a path in the package's zoo; it stays valid where the package is another folder."""
    real = Path(os.path.realpath(path))
    return f"{ZOO_PREFIX}{real.relative_to(ZOO_IN_PACKAGE).as_posix()}" if ZOO_IN_PACKAGE in real.parents else None


def is_in_zoo(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is in one of the zoos, so that nothing may be written there."""
    real = Path(os.path.realpath(path))
    return any(folder in real.parents for folder in zoo_folders())


def check_outside_zoo(path: str | os.PathLike[str], flag: str = "") -> None:
    """Refuses to write to a path in a zoo.

    Raises:
        UserError: it is in one.
    """
    if is_in_zoo(path):
        raise UserError(
            f"{f'--{flag}=' if flag else ''}{name_in_package(path) or path}: it is in a zoo, whose runs are only read",
            "name another folder, or train a new run with --warm_start_from",
        )


@contextlib.contextmanager
def zoo_in(folders: str) -> Iterator[None]:
    """Context in which names are looked up in these folders, with commas between them, not those of the variable.

    An empty text changes nothing. Processes that are started meanwhile look there, too.
    """
    before = os.environ.get(ZOO_VARIABLE)
    if folders:
        os.environ[ZOO_VARIABLE] = folders
    try:
        yield
    finally:
        if folders:
            os.environ.pop(ZOO_VARIABLE)
            os.environ.update({} if before is None else {ZOO_VARIABLE: before})
