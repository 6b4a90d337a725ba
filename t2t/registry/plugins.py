"""Plug-ins: installed packages with the entry-point group `t2t.plugins`, and a `--t2t_usr_dir` folder.

A plug-in registers problems, models, hparams sets, modalities and metrics when it is imported. If the import fails, the
command ends and none of the plug-in's names stay registered. A folder that has changed since this process loaded it is
loaded again, so that its fingerprint matches the running code.
"""

import contextlib
import dataclasses
import hashlib
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from t2t.errors import UserError, first_few, one_line
from t2t.files.paths import check_local, local_path
from t2t.registry import REGISTRIES, RegistrationError, Registry
from t2t.registry.overrides import PluginError, cure_of, last_place, message_of
from t2t.registry.usr_package import (
    forget_usr_package,
    has_own_name,
    import_usr_package,
    is_usr_package_imported,
    modules_not_imported,
)

ENTRY_POINT_GROUP = "t2t.plugins"
LOADED: dict[tuple[str, str], "Plugin"] = {}
"""Plug-ins that this process has loaded, by (name, value) of the entry point, or by (`usr_dir`, path of the folder)."""

_usr_dir = ""
"""The folder that was loaded last."""
_COMMANDS = re.compile(r"\bt2t-(datagen|trainer|tune|decoder|eval|server|shortlist)(?= --(problems?|output_dir)=)")

log = logging.getLogger("t2t")


@dataclass(frozen=True)
class Plugin:
    """A loaded plug-in, as it is recorded in a run directory."""

    name: str
    """Entry-point name, or name of the folder."""
    kind: str
    """`installed` or `usr_dir`."""
    fingerprint: str
    """Version of the distribution, or sha256 of the folder's Python sources."""
    registered: tuple[str, ...]
    """What it registered, as `kind:name`."""


def load_plugins(usr_dir: str | None = None) -> list[Plugin]:
    """Imports every installed plug-in, then the folder, and returns them with the names that each registered.

    Raises:
        UserError: a plug-in failed to import, or the folder is not a package.
    """
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    global _usr_dir
    _usr_dir = usr_dir or ""
    loaded = [_load_installed(point) for point in points]
    Registry.plugin_hint = _hint(usr_dir)
    if not usr_dir:
        return loaded
    check_local(usr_dir)
    plugin = _load_usr_dir(local_path(usr_dir))
    Registry.plugin_hint = _hint(usr_dir, plugin)
    return [*loaded, plugin]


def _load_installed(point: EntryPoint) -> Plugin:
    if known := LOADED.get((point.name, point.value)):
        return known
    imported = set(sys.modules)
    try:
        with _registering() as registered:
            point.load()
    except (Exception, SystemExit) as error:
        for module in set(sys.modules) - imported:  # so that it registers again once it is repaired
            if module.partition(".")[0] == point.module.partition(".")[0]:
                del sys.modules[module]
        raise UserError(_broken(f"installed plug-in {point.name!r} ({point.value})", error)) from error
    plugin = Plugin(point.name, "installed", point.dist.version if point.dist else "", tuple(registered))
    return LOADED.setdefault((point.name, point.value), plugin)


def _load_usr_dir(folder: Path) -> Plugin:
    if not folder.is_dir():
        raise UserError(
            "no such folder", "give the folder that holds your __init__.py", option="t2t_usr_dir", value=folder
        )
    if not (folder / "__init__.py").is_file():
        raise UserError(
            "no __init__.py in it",
            "add one that imports the modules with your registrations",
            option="t2t_usr_dir",
            value=folder,
        )
    key, fingerprint = ("usr_dir", str(folder.resolve())), _fingerprint(folder)
    known = LOADED.get(key)
    if known and known.fingerprint == fingerprint and is_usr_package_imported(folder):
        return known
    if known:
        log.info("plug-in %s has changed: it is loaded again", folder)
        unload_usr_dir(folder)
    try:
        with _registering() as registered:
            import_usr_package(folder)
    except (Exception, SystemExit) as error:
        hint = _import_hint(folder, error)
        raise UserError(_broken(f"plug-in --t2t_usr_dir={folder}", error) + hint) from error
    LOADED[key] = Plugin(folder.resolve().name, "usr_dir", fingerprint, tuple(registered))
    return LOADED[key]


def unload_usr_dir(folder: Path) -> None:
    """Forgets the names and modules of a folder that was loaded."""
    plugin = LOADED.pop(("usr_dir", str(folder.resolve())))
    for registry in REGISTRIES:
        named = (one.split(":") for one in plugin.registered)
        registry.forget({name for kind, name in named if kind == registry.kind})
    forget_usr_package(folder)


@contextlib.contextmanager
def _registering() -> Iterator[list[str]]:
    """Context that yields a list; at its end, the list holds what was registered in it, as `kind:name`.

    If the block fails, its registrations are undone.
    """
    registered: list[str] = []
    with contextlib.ExitStack() as stack:
        for registry in REGISTRIES:  # an earlier run of this process may have frozen it
            stack.enter_context(registry.open())
        before = _names()
        yield registered
        registered += sorted(_names() - before)


def _hint(usr_dir: str | None, plugin: Plugin | None = None) -> str:
    """Returns what to do about an unknown name, for messages."""
    if not usr_dir or plugin is None:
        return "to load your own, pass --t2t_usr_dir"
    found = f"--t2t_usr_dir={usr_dir} registers {', '.join(plugin.registered) or 'nothing'}"
    missing = modules_not_imported(local_path(usr_dir))
    if not missing:
        return f"{found}; correct the name, or register it there"
    return f"{found}; its __init__.py imports neither of {first_few(missing, ', ')}: import there what registers names"


def use_no_usr_dir() -> None:
    """Forgets the folder in use, which an earlier command of this process may have had."""
    global _usr_dir
    _usr_dir = ""


def with_usr_dir(text: str) -> str:
    """Returns a message in which commands that name a problem or a run also name the folder of plug-ins in use."""
    return _COMMANDS.sub(lambda found: f"{found[0]} --t2t_usr_dir={_usr_dir}", text) if _usr_dir else text


def plugin_error(error: BaseException) -> PluginError | None:
    """Returns the error for the user where the code of a loaded plug-in raised an exception, else None."""
    folders = [path for kind, path in LOADED if kind == "usr_dir"]
    packages = [value.partition(":")[0].partition(".")[0] for kind, value in LOADED if kind != "usr_dir"]

    def is_theirs(file: str, module: str) -> bool:
        return module.partition(".")[0] in packages or any(Path(file).is_relative_to(folder) for folder in folders)

    place = last_place(error, is_theirs)
    # An exception of another process, or of a function that TensorFlow compiles, has its places as text.
    for match in re.finditer(r'File "([^"]+)", line (\d+), in (\w+)', f"{error}\n{error.__cause__}"):
        if not place or is_theirs(match[1], ""):
            place = f" at {match[1]}:{match[2]}, in {match[3]}" if is_theirs(match[1], "") else place
    return PluginError(f"the plug-in failed{place}: {message_of(error)}", cure_of(error)) if place else None


def _names() -> set[str]:
    return {f"{registry.kind}:{name}" for registry in REGISTRIES for name in registry.names()}


def _broken(what: str, error: BaseException) -> str:
    if isinstance(error, PluginError | RegistrationError):  # which say where
        return f"{what}: {error}"
    not_theirs = (str(Path(__file__).parents[1]), dataclasses.__file__, "<")
    where = last_place(error, lambda file, module: not file.startswith(not_theirs)).removesuffix(", in <module>")
    if isinstance(error, SyntaxError) and error.filename:
        where = f" at {error.filename}:{error.lineno}"
    said = one_line(error) if isinstance(error, UserError) else f"{type(error).__name__}: {one_line(error)}"
    return f"{what} failed to import{where}: {said}; fix it or leave it out"


def _import_hint(folder: Path, error: BaseException) -> str:
    """Returns a hint for the message if the module that was not found lies in the folder; else an empty text."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    top, _, rest = error.name.partition(".")
    if top == folder.resolve().name and not has_own_name(folder):
        return f"; the folder has the name of another module: import from it by 'from .{rest} import ...', or rename it"
    return ""


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*.py") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
