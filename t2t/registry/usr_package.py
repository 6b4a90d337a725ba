"""Imports a folder as a package, and unloads it so that it can be imported again.

Its modules are named `t2t_usr_dir_<digest of the path>.<module>`, so that two folders of the same name do not collide.

A model's file may hold its hparams sets first, then the imports of Keras and layers and the network. Importing it runs
the sets; the network, whose names are read from the source, runs when one of them is first used. Names can therefore be
listed and hparams checked without Keras. The same is done for the files of a package of `split_model_files`.

If no other module has the folder's name, absolute imports by that name give the same modules: `from my_folder.words
import WORDS`. Where several folders have that name, it means in an import statement of a folder that folder's modules,
also if the statement runs late; elsewhere, those of the folder that was imported last. `sys.path` is not changed.
"""

import ast
import builtins
import functools
import hashlib
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from t2t.registry import REGISTRIES
from t2t.registry.entry import defined_names, network_start, registrations

_PREFIX = "t2t_usr_dir_"

StandIn = Callable[[Path, str], ModuleType | None]
"""A folder of a plug-in and the name that one of its modules imports -> the module it gets; None for the usual one."""
_STAND_INS: list[StandIn] = []


def split_model_files(package: str) -> None:
    """Has the modules of a package imported like those of a folder: their networks run when they are first used."""
    _install_finder()
    _FINDER.packages.add(package)


def is_usr_package_imported(folder: Path) -> bool:
    """Returns whether a folder is currently imported."""
    return _module_name(folder) in sys.modules


def import_usr_package(folder: Path) -> None:
    """Imports a folder that has an `__init__.py`; if that fails, none of its modules stay imported.

    Raises:
        Exception: whatever its modules raise.
    """
    name, folder = _module_name(folder), folder.resolve()
    importlib.invalidate_caches()  # it may have been edited a moment ago
    _install_finder()
    if has_own_name(folder):
        _forget_modules(folder.name)  # of another folder of this name
        _FINDER.folders[folder.name] = folder
        _FINDER.own_names[name] = folder.name
    init = folder / "__init__.py"
    loader = _SourceLoader(name, str(init))
    spec = spec_from_file_location(name, init, loader=loader, submodule_search_locations=[str(folder)])
    assert spec is not None, "a loader is given"
    module = sys.modules[name] = module_from_spec(spec)
    try:
        loader.exec_module(module)
    except BaseException:
        forget_usr_package(folder)
        raise


def forget_usr_package(folder: Path) -> None:
    """Removes the modules of a folder from `sys.modules`."""
    name, folder = _module_name(folder), folder.resolve()
    _forget_modules(name)
    _FINDER.own_names.pop(name, None)
    if _FINDER.folders.get(folder.name) == folder:
        del _FINDER.folders[folder.name]
        if _is_ours(folder.name):
            _forget_modules(folder.name)


def modules_not_imported(folder: Path) -> list[str]:
    """Returns the files of a folder that was imported whose modules were not, as names in it: `more/sets.py`."""
    folder = folder.resolve()
    names = {path: path.relative_to(folder) for path in sorted(folder.rglob("*.py"))}
    dotted = {path: ".".join((_module_name(folder), *name.with_suffix("").parts)) for path, name in names.items()}
    return [str(name) for path, name in names.items() if dotted[path].removesuffix(".__init__") not in sys.modules]


def has_own_name(folder: Path) -> bool:
    """Returns whether a folder can be imported by its own name, since no other module has it."""
    folder = folder.resolve()
    name = folder.name
    if not name.isidentifier() or name in sys.stdlib_module_names:
        return False
    return _is_ours(name) if name in sys.modules else not _is_elsewhere(name, folder)


def _is_ours(name: str) -> bool:
    """Returns whether the module imported under a name belongs to such a folder."""
    return getattr(sys.modules.get(name), "__name__", "").startswith(_PREFIX)


def _is_elsewhere(name: str, folder: Path) -> bool:
    """Returns whether importing a name finds another module than the folder."""
    finders = (finder for finder in sys.meta_path if finder is not _FINDER)
    spec = next(filter(None, (finder.find_spec(name, None) for finder in finders)), None)
    places = (spec.submodule_search_locations or []) if spec else [folder]
    return all(Path(place).resolve() != folder for place in places)


def _module_name(folder: Path) -> str:
    return _PREFIX + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]


def _forget_modules(name: str) -> None:
    for loaded in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        del sys.modules[loaded]


def _exists(name: str) -> bool:
    return name in sys.modules or find_spec(name) is not None


def _import(
    package: str,
    name: str,
    globals: dict[str, Any] | None = None,
    locals: dict[str, Any] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> ModuleType:
    """The `__import__` of the modules of a folder, in which its own name means `package`.

    Its modules are also found by their own names, if no other module has such a name.
    """
    top, dot, rest = name.partition(".")
    if level == 0 and top == _FINDER.own_names.get(package) and _exists(package + dot + rest):
        name = package + dot + rest
    elif level == 0 and (module := _stand_in(package, name)) is not None:
        return module
    elif level == 0 and top not in sys.modules and not _exists(top) and _exists(f"{package}.{top}"):
        found = builtins.__import__(f"{package}.{name}", globals, locals, fromlist, level)
        return found if fromlist else sys.modules[f"{package}.{top}"]
    return builtins.__import__(name, globals, locals, fromlist, level)


def add_stand_in(find: StandIn) -> None:
    """Lets a function decide what modules of folders get for an import, instead of the module of that name."""
    if find not in _STAND_INS:
        _STAND_INS.append(find)


def _stand_in(package: str, name: str) -> ModuleType | None:
    path = getattr(sys.modules.get(package), "__path__", None)
    found = (find(Path(path[0]), name) for find in _STAND_INS) if path else ()
    return next((module for module in found if module is not None), None)


class _ModelLoader(SourceFileLoader):
    """Runs a file, but leaves the network that follows its hparams sets until it is used.

    The source is compiled at each import: cached bytecode would miss an edit within the same second.
    """

    def exec_module(self, module: ModuleType) -> None:
        path = self.get_filename(module.__name__)
        body = ast.parse(self.get_data(path), path).body
        start = network_start(body)
        _execute(body[:start], path, module)
        if body[start:]:
            _Network(module, path, body, start)


class _Network:
    """The statements of a model's file that have not run yet. Its names are registered, as read from the source."""

    def __init__(self, module: ModuleType, path: str, body: list[ast.stmt], start: int):
        futures = [node for node in body[:start] if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        self._module, self._path, self._body = module, path, [*futures, *body[start:]]
        self._names = defined_names(self._body) - vars(module).keys()
        self._lock, self._is_running = threading.RLock(), False
        self._announce()
        vars(module).update(__getattr__=self._get, __dir__=lambda: sorted({*vars(module), *self._names}))

    def _announce(self) -> None:
        for registry in REGISTRIES:
            decorator, module = f"register_{registry.kind}", self._module.__name__
            registry.announce(registrations(self._body, Path(self._path), decorator, module))

    def _get(self, name: str) -> Any:
        """Returns a name of the network, which runs now; it is the `__getattr__` of the module until then."""
        with self._lock:
            if name in self._names - vars(self._module).keys() and not self._is_running:
                self._run()
        if name not in vars(self._module):
            raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}", name=name)
        return vars(self._module)[name]

    def _run(self) -> None:
        self._is_running = True
        try:
            _execute(self._body, self._path, self._module)
        except BaseException:
            for name in self._names & vars(self._module).keys():
                del vars(self._module)[name]
            self._announce()  # so that it can run again
            raise
        finally:
            self._is_running = False
        del self._module.__getattr__, self._module.__dir__


def _execute(body: list[ast.stmt], path: str, module: ModuleType) -> None:
    exec(compile(ast.Module(body, type_ignores=[]), path, "exec", dont_inherit=True), vars(module))


class _SourceLoader(_ModelLoader):
    """Gives a folder's modules the `__import__` that finds its other modules by either name."""

    def exec_module(self, module: ModuleType) -> None:
        # Import statements use the `__import__` among the builtins of their module.
        own_import = functools.partial(_import, module.__name__.partition(".")[0])
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": own_import}
        super().exec_module(module)


class _SameModule(Loader):
    """Gives a module a second name."""

    def __init__(self, module: ModuleType):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import system has replaced


class _Finder(MetaPathFinder):
    """Finds the modules of folders, by either of their names."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}
        """By name."""
        self.own_names: dict[str, str] = {}
        """By unique name."""
        self.packages: set[str] = set()
        """Names of other packages whose model files are split."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, dot, rest = fullname.partition(".")
        if top in self.folders and (_is_ours(top) if dot else not _is_elsewhere(top, self.folders[top])):
            own_name = _module_name(self.folders[top]) + dot + rest
            if not _exists(own_name):
                return None
            module = importlib.import_module(own_name)
            return spec_from_loader(fullname, _SameModule(module), is_package=hasattr(module, "__path__"))
        spec = PathFinder.find_spec(fullname, path) if top.startswith(_PREFIX) and dot else None
        if spec is not None and spec.origin is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _SourceLoader(fullname, spec.origin)
        elif fullname.rpartition(".")[0] in self.packages:
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None and spec.origin is not None:
                spec.loader = _ModelLoader(fullname, spec.origin)
        return spec


def _install_finder() -> None:
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


_FINDER = _Finder()
