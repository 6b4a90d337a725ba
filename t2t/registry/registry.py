"""The registry of one kind of object: maps names to classes and functions.

Built-ins are found by folder: every module of the kind's package is imported, in sorted order, and import errors are
raised. Modules that import Keras, which is slow, are read instead: their names are found in the source, and a module is
imported when one of its names is looked up.
"""

import contextlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from t2t.errors import UnknownNameError, did_you_mean
from t2t.registry.entry import Entry, RegistrationError, assigned_in_class, read_registrations, snake_case
from t2t.registry.overrides import check_registered
from t2t.registry.tensor2tensor import TheirNames

T = TypeVar("T")
D = TypeVar("D", bound=Callable[..., Any])

_FEW = 6
"""So many names are listed where another one is refused."""
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_T2T = Path(__file__).parents[1]


class Registry(Generic[T]):
    """Maps names of one kind to objects.

    Args:
        kind: what the names are called in messages, e.g. `problem`.
        package: dotted name of the module, or of the package whose modules register the built-ins.
        title: heading of the kind in `--registry_help`; by default its plural.
        bases: dotted names of classes from one of which a registered class must derive; empty if functions are
            registered; None to allow any object.
        named_by: attribute of registered classes that is their name.
        called: has the parameters that what is registered is called with; None if they are not known.
        read_source: list built-ins by reading their source, because importing them is slow.
        model_files: package of files with hparams sets and a network each, whose names are also read from source.
        reserved_suffixes: endings that a name may not have, since lookup gives them a meaning.
        theirs: Tensor2Tensor's names.
    """

    plugin_hint = "to load your own, pass --t2t_usr_dir"
    """What to do about a name that a plug-in should have registered."""

    def __init__(
        self,
        kind: str,
        package: str,
        *,
        title: str = "",
        bases: tuple[str, ...] | None = None,
        named_by: str = "",
        called: Callable[..., Any] | None = None,
        read_source: bool = False,
        model_files: str = "",
        reserved_suffixes: tuple[str, ...] = (),
        theirs: TheirNames | None = None,
    ):
        self.kind, self.label = kind, kind.replace("_", " ")
        self.title = title or f"{self.label.capitalize()}s"
        self._bases, self._named_by, self._called = bases, named_by, called
        self.package = package
        """Dotted name of the package of the built-ins."""
        self._packages = ({model_files: True} if model_files else {}) | {package: read_source}
        """Dotted name -> whether its modules are read instead of imported."""
        self._reserved_suffixes = reserved_suffixes
        self._theirs = theirs or TheirNames()
        self._missing = dict(self._theirs.missing)
        self._entries: dict[str, Entry[T]] = {}
        self._built_ins_read = False
        self._frozen = False

    @overload
    def register(self, name: D) -> D: ...

    @overload
    def register(self, name: str | None = None, *, aliases: Sequence[str] = ()) -> Callable[[D], D]: ...

    def register(self, name: Any = None, *, aliases: Sequence[str] = ()) -> Any:
        """Decorates a class or function: `@register`, or `@register("name", aliases=["another_name"])`."""
        if callable(name):
            return self.register()(name)

        def decorate(value: Any) -> Any:
            chosen = name or getattr(value, self._named_by, "") or snake_case(value.__name__)
            summary = (inspect.getdoc(value) or "").strip().split("\n")[0]
            self._insert(Entry(chosen, summary, _caller(), value))
            for alias in aliases:
                self.alias(alias, chosen)
            return value

        return decorate

    def alias(self, name: str, target: str) -> None:
        """Makes `name` another name of `target`; listings show it as such."""
        self._insert(Entry(name, f"alias of {target}", _caller(), None, alias_of=target))

    def announce(self, entries: Sequence[Entry[T]]) -> None:
        """Adds names that were read from the source of a module, which is imported when one of them is looked up."""
        for entry in entries:
            known = self._entries.get(entry.name)
            if known is not None and known.origin.rpartition(":")[0] == entry.origin.rpartition(":")[0]:
                self._entries[entry.name] = entry  # the module is imported again
            else:
                self._insert(entry)

    def say_missing(self, name: str, advice: str) -> None:
        """Sets what is said where `name`, which cannot be registered, is asked for."""
        self._missing[name] = advice

    def get(self, name: str) -> T:
        """Returns the object registered as `name`; imports its module if needed.

        Raises:
            UnknownNameError: no such name; the message has the nearest ones.
        """
        value = self.entry(name).value
        assert value is not None, "its module has been imported"
        return value

    def entry(self, name: str) -> Entry[T]:
        """Returns the entry of `name`; follows aliases and imports its module. Raises as `get`."""
        self._read_built_ins()
        found = self._entries.get(name)
        if found is None:
            raise UnknownNameError(self.unknown(name))
        if found.alias_of:
            return self.entry(found.alias_of)
        if found.value is None:
            # Using its name runs a network that was left when the file's hparams sets were imported.
            getattr(importlib.import_module(found.module), found.attribute)
            found = self._entries[name]
        return found

    def canonical(self, name: str) -> str:
        """Returns the name that `name` is an alias of; `name` itself if it is no alias or not registered."""
        self._read_built_ins()
        found = self._entries.get(name)
        return self.canonical(found.alias_of) if found is not None and found.alias_of else name

    def loaded(self, name: str) -> T | None:
        """Returns the object registered as `name` if its module is already imported, else None."""
        self._read_built_ins()
        return self._entries[name].value if name in self._entries else None

    def declared(self, name: str, attribute: str) -> str:
        """Returns the name that the body of a registered class assigns to an attribute, without importing the class.

        It is the last part of a dotted name, read from the source; "" if the class inherits the attribute or is
        imported.
        """
        self._read_built_ins()
        found = self._entries[self.canonical(name)]
        path, _, line = found.origin.rpartition(":")
        return assigned_in_class(Path(path), int(line), attribute) if found.value is None else ""

    def entries(self, containing: str = "") -> list[Entry[T]]:
        """Returns all entries whose name contains the text, sorted by name, without importing slow modules."""
        self._read_built_ins()
        return [self._entries[name] for name in sorted(self._entries) if containing in name]

    def names(self) -> list[str]:
        """Returns all registered names, sorted."""
        return [entry.name for entry in self.entries()]

    def __contains__(self, name: str) -> bool:
        self._read_built_ins()
        return name in self._entries

    def is_of_plugin(self, name: str) -> bool:
        """Returns whether a name is registered outside of this package."""
        return name in self and not Path(self._entries[name].origin).is_relative_to(_T2T)

    def freeze(self) -> None:
        """Refuses further registrations; called once a command has resolved all its names."""
        self._read_built_ins()
        self._frozen = True

    def thaw(self) -> None:
        """Accepts registrations again, in a process that continues after a run, such as a notebook."""
        self._frozen = False

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Context that accepts registrations, frozen or not; for loading a plug-in.

        If the block fails, its registrations are undone.
        """
        before = set(self.names())
        frozen, self._frozen = self._frozen, False
        try:
            yield
        except BaseException:
            self.forget(self._entries.keys() - before)
            raise
        finally:
            self._frozen = frozen

    def forget(self, names: Collection[str]) -> None:
        """Removes names, e.g. those of a plug-in that is about to be loaded again."""
        self._entries = {name: entry for name, entry in self._entries.items() if name not in names}

    def _insert(self, entry: Entry[T]) -> None:
        known = self._entries.get(entry.name)
        if not _NAME.match(entry.name):
            raise RegistrationError(
                f"{self.label} name {entry.name!r} ({entry.origin}): names are lower-case letters, digits and "
                "underscores, starting with a letter",
                "pass one to the decorator",
            )
        for suffix in self._reserved_suffixes:
            if entry.name.endswith(suffix):
                raise RegistrationError(
                    f"{self.label} name {entry.name!r} ({entry.origin}) ends in {suffix!r}, which asks for a variant "
                    f"of a {self.label}",
                    "choose another name",
                )
        if known is not None and not _is_repeated(known, entry):
            raise RegistrationError(
                f"{self.label} {entry.name!r} is registered twice: {known.origin} and {entry.origin}", "rename one"
            )
        if entry.value is not None and self._bases is not None:
            self._check_kind(entry, self._bases)
            check_registered(entry.value, self._called)
            own = getattr(entry.value, self._named_by, "") if self._named_by else ""
            if own and own != entry.name:
                raise RegistrationError(
                    f"{self.label} {entry.name!r} ({entry.origin}): its {self._named_by} is {own!r}",
                    "give both the same name",
                )
        if self._frozen and known is None:
            raise RegistrationError(
                f"{self.label} {entry.name!r} ({entry.origin}) comes too late: names are resolved when a run starts",
                "register it on import of a plug-in",
            )
        self._entries[entry.name] = entry

    def _check_kind(self, entry: Entry[T], bases: tuple[str, ...]) -> None:
        value: Any = entry.value
        is_class = isinstance(value, type)
        names = [f"{one.__module__}.{one.__qualname__}" for one in value.__mro__] if is_class else []
        is_maker = callable(value) and not is_class and self.kind == "problem"
        if set(names) & set(bases) or is_maker or (callable(value) and not bases):
            return
        needed = f"a class that derives from {' or '.join(bases)}" if bases else "a function"
        found = "a class of another base" if is_class else f"of type {type(value).__name__}"
        raise RegistrationError(f"{self.label} {entry.name!r} ({entry.origin}) is {found}", f"register {needed}")

    def unknown(self, name: str) -> str:
        """Returns the error text for a name that is not registered."""
        known, near = self.names(), did_you_mean(name, self.names())
        if name in self._missing:
            advice = f"{self._missing[name]}; " if self._missing[name] else near
            return f"{self.label} {name!r} of Tensor2Tensor does not exist here; {advice}list all with --registry_help"
        families = (advice for start, advice in self._theirs.families.items() if re.match(start, name))
        family = "".join(f"in place of Tensor2Tensor's: {advice}; " for advice in islice(families, 1))
        listed = f" ({', '.join(known)})" if len(known) <= _FEW else ""
        return (
            f"{self.label} {name!r} is not registered; {near}{family}{len(known)} {self.label} names exist{listed}: "
            f"list them with --registry_help; {self.plugin_hint}"
        )

    def _read_built_ins(self) -> None:
        if self._built_ins_read:
            return
        self._built_ins_read = True  # set before the modules run, as they may look up names
        try:
            for package, read_source in self._packages.items():
                self._read_package(package, read_source)
            for alias, target in self._theirs.aliases.items():
                self.alias(alias, target)
        except BaseException:
            self._built_ins_read = False  # so that the next call fails too, instead of returning half of the names
            raise

    def _read_package(self, package: str, read_source: bool) -> None:
        top, *rest = package.split(".")
        spec = importlib.util.find_spec(top)
        assert spec is not None, f"{top} is a package"
        assert spec.submodule_search_locations, f"{top} is a package"
        folder = Path(spec.submodule_search_locations[0], *rest)  # not imported, nor its parents: that may be slow
        files = {package: folder.with_suffix(".py")} if not folder.is_dir() else {}
        for module in sorted(pkgutil.iter_modules([str(folder)]), key=lambda module: module.name):
            file = f"{module.name}/__init__.py" if module.ispkg else f"{module.name}.py"
            files[f"{package}.{module.name}"] = folder / file
        for dotted, path in files.items():
            if dotted in self._packages and dotted != package:
                continue
            if not read_source or dotted in sys.modules:
                importlib.import_module(dotted)
            else:
                self.announce(read_registrations(path, f"register_{self.kind}", dotted))


def _caller() -> str:
    """Returns `file:line` of the code that called the registry, itself or by Tensor2Tensor's names."""
    frame, compat = sys._getframe(2), str(_T2T / "compat")
    while frame.f_back is not None and frame.f_code.co_filename.startswith((__file__, contextlib.__file__, compat)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_repeated(known: Entry[Any], entry: Entry[Any]) -> bool:
    """Returns whether a registration repeats a known one: read from source, then imported; or defined again."""
    if _typed_name(known.value) is not None and _typed_name(known.value) == _typed_name(entry.value):
        return True
    if known.alias_of or known.value is not None:
        return known.value is entry.value and known.alias_of == entry.alias_of
    return known.origin.rpartition(":")[0] == entry.origin.rpartition(":")[0]


def _typed_name(value: Any) -> str | None:
    """Returns the name of an object defined at a prompt or in a notebook cell, which may run again; else None."""
    return getattr(value, "__qualname__", None) if getattr(value, "__module__", "") == "__main__" else None
