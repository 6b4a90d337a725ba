"""Code of other people: installed packages with the entry-point group `t2t.plugins`, and a `--t2t_usr_dir` folder.

A plug-in registers problems, models, hparams sets and modalities when it is imported. One that fails to import ends
the command.
"""

import contextlib
import hashlib
import importlib.util
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path

from t2t.errors import UserError, one_line
from t2t.registry import HPARAMS, MODALITIES, MODELS, PROBLEMS

ENTRY_POINT_GROUP = "t2t.plugins"
_USR_PACKAGE = "t2t_usr_dir_"
_REGISTRIES = (PROBLEMS, MODELS, HPARAMS, MODALITIES)
_INSTALLED: dict[tuple[str, str], tuple[str, ...]] = {}
"""What installed plug-ins have registered in this process, by name and value of their entry points."""


@dataclass(frozen=True)
class Plugin:
    """A plug-in that was loaded, as a run directory remembers it."""

    name: str
    """Entry-point name, or name of the folder."""
    kind: str
    """`installed` or `usr_dir`."""
    fingerprint: str
    """Version of the distribution, or sha256 of the folder's Python sources."""
    registered: tuple[str, ...]
    """What it registered, as `kind:name`."""

    def to_dict(self) -> dict:
        """Returns the plug-in as plain JSON."""
        return asdict(self)


def load_plugins(usr_dir: str | None = None) -> list[Plugin]:
    """Imports every installed plug-in, then the folder, and says what each registered.

    Raises:
        UserError: a plug-in failed to import, or the folder is not a package.
    """
    with contextlib.ExitStack() as stack:
        for registry in _REGISTRIES:  # which an earlier run of this process may have closed
            stack.enter_context(registry.open())
        points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
        loaded = [_load_installed(point) for point in points]
        if usr_dir:
            loaded.append(_load_usr_dir(Path(usr_dir).expanduser()))
        return loaded


def _load_installed(point) -> Plugin:
    before = _registered()
    try:
        point.load()
    except (Exception, SystemExit) as error:
        raise UserError(_broken(f"installed plug-in {point.name!r} ({point.value})", error)) from error
    # Only the first load registers anything; a later one gives the same answer.
    registered = _INSTALLED.setdefault((point.name, point.value), _new_since(before))
    return Plugin(point.name, "installed", point.dist.version if point.dist else "", registered)


def _load_usr_dir(folder: Path) -> Plugin:
    init = folder / "__init__.py"
    if not folder.is_dir():
        raise UserError(f"--t2t_usr_dir={folder}: no such folder; give the folder that holds your __init__.py")
    if not init.is_file():
        raise UserError(
            f"--t2t_usr_dir={folder}: no __init__.py in it; add one that imports the modules with your registrations"
        )
    fingerprint = _fingerprint(folder)
    name = _USR_PACKAGE + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    before = _registered()
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(folder)])
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            for loaded in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
                del sys.modules[loaded]
            raise UserError(_broken(f"plug-in --t2t_usr_dir={folder}", error)) from error
        module.__t2t_registered__ = _new_since(before)
    return Plugin(folder.resolve().name, "usr_dir", fingerprint, sys.modules[name].__t2t_registered__)


def _broken(what: str, error: BaseException) -> str:
    where = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        is_ours = Path(code.co_filename).is_relative_to(Path(__file__).parent)
        if not code.co_filename.startswith("<") and not is_ours:
            where = f" at {code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        where = f" at {error.filename}:{error.lineno}"
    return f"{what} failed to import{where}: {type(error).__name__}: {one_line(error)}; mend it or leave it out"


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _registered() -> set[str]:
    return {f"{registry.kind}:{entry.name}" for registry in _REGISTRIES for entry in registry.entries()}


def _new_since(before: set[str]) -> tuple[str, ...]:
    return tuple(sorted(_registered() - before))
