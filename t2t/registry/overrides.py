"""Checks of what the classes of plug-ins override, and one line for exceptions that their code raises.

A class that derives from one of ours is checked when it is defined: its attributes have the types of those that they
replace, its methods take the arguments that they are called with. When a method returns, its result is compared with
the annotation of the method that it overrides.
"""

import contextlib
import dataclasses
import difflib
import enum
import functools
import inspect
import logging
import numbers
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from t2t.errors import T2TError, UserError, one_line

_SIMILAR = 0.85
"""Least similarity, from 0 to 1, of the name of an attribute with a known one at which it may be misspelt."""
_LONGEST_MESSAGE = 300
"""Characters of an exception's message that are quoted."""
_SHOWN = 60
"""Characters of a wrong value that are quoted."""
_ELEMENTS = 8
"""Elements of a result whose types are checked."""
_MEMORY = ("MemoryError", "ResourceExhaustedError", "JaxRuntimeError")
"""Names of exceptions that are not the fault of the code that raises them."""

log = logging.getLogger("t2t")


class PluginError(UserError):
    """A mistake in the code of a plug-in; its cause is the exception, if there is one."""


def is_of_plugin(owner: Any) -> bool:
    """Returns whether a class or function is defined outside of this package."""
    return getattr(owner, "__module__", "t2t").partition(".")[0] != "t2t"


def described(owner: Any) -> str:
    """Returns a class, function or method with its file and line, for messages: `Mine.encode (my/models.py:12)`."""
    name = getattr(owner, "__qualname__", None) or repr(owner)
    name = name.rpartition("<locals>.")[2]
    try:
        code = inspect.unwrap(owner) if not isinstance(owner, type) else owner
        return f"{name} ({inspect.getsourcefile(code)}:{inspect.getsourcelines(code)[1]})"
    except (OSError, TypeError):  # defined at a prompt
        return name


def message_of(error: BaseException) -> str:
    """Returns the class and the message of an exception on one line, without what Keras and TensorFlow put around."""
    text = str(error)
    if text.startswith("Exception encountered when calling") and "\x1b[1m" in text:
        text = text.partition("\x1b[1m")[2].partition("\x1b[0m")[0]
    elif text.startswith("in user code:"):
        text = text.strip().split("\n")[-1].strip().removeprefix(f"{type(error).__name__}: ")
    text = one_line(text)
    cut = text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."
    return f"{type(error).__name__}: {cut}".removesuffix(": ").rstrip(";,:")


@contextlib.contextmanager
def plugin_errors(owner: Any, what: str) -> Iterator[None]:
    """Context in which code of a plug-in is called: its exceptions become one line.

    Args:
        owner: class or function; nothing changes for those of this package.
        what: what fails, e.g. `cannot be built`.

    Raises:
        PluginError: in place of any exception but those for the user, and a lack of memory.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, T2TError) or type(error).__name__ in _MEMORY or not is_of_plugin(owner):
            raise
        place = last_place(error, lambda file, module: module.partition(".")[0] == owner.__module__.partition(".")[0])
        raise PluginError(f"{described(owner)} {what}{place}: {message_of(error)}", "correct its code") from error


def last_place(error: BaseException, is_theirs: Callable[[str, str], bool]) -> str:
    """Returns ` at FILE:LINE, in FUNCTION` of the innermost call of an exception in someone's code; '' if in none.

    Args:
        error: with its traceback.
        is_theirs: whether a file and a module are meant.
    """
    found, trace = "", error.__traceback__
    while trace is not None:
        code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        if is_theirs(code.co_filename, module):
            found = f" at {code.co_filename}:{trace.tb_lineno}, in {code.co_name}"
        trace = trace.tb_next
    return found


def check_overrides(cls: type, *, renamed: Mapping[str, str] | None = None) -> None:
    """Checks a class of a plug-in when it is defined, and has its methods check what they return.

    Args:
        cls: the class; nothing is done for one of this package.
        renamed: names of Tensor2Tensor -> what to write instead, '' if nothing.

    Raises:
        PluginError: a value of another type than the one that it overrides, or a method that takes other arguments.
    """
    if not is_of_plugin(cls):
        return
    for name, value in list(vars(cls).items()):
        owner = next((base for base in cls.__mro__[1:] if name in vars(base) and not is_of_plugin(base)), None)
        if owner is not None and name in vars(owner).get("__dataclass_fields__", {}):
            if name not in inspect.get_annotations(cls):
                raise PluginError(
                    f"{described(cls)}: {name} without a type is no field, and would have no effect",
                    f"write {name}: {type(getattr(owner, name)).__name__} = ..., or set it in the hparams set",
                )
        elif owner in (None, object):
            _warn_of_name(cls, name, renamed or {})
        elif not name.startswith("__") and not isinstance(value, dataclasses.Field):
            _check_override(cls, owner, name, value)


def check_dataclass(cls: type) -> None:
    """Checks that the annotated attributes of a class are fields of a dataclass, each with a default.

    Raises:
        PluginError: `@dataclass` is missing, or a default.
    """
    for owner in cls.__mro__:
        if not is_of_plugin(owner) or owner is object:
            continue
        fields = vars(owner).get("__dataclass_fields__", {})
        for name, hint in inspect.get_annotations(owner).items():
            if "ClassVar" in str(hint) or name.startswith("_"):
                continue
            if name not in fields:
                base = next(one for one in owner.__mro__[1:] if dataclasses.is_dataclass(one))
                frozen = "frozen=True, " * base.__dataclass_params__.frozen  # type: ignore[attr-defined]
                raise PluginError(
                    f"{described(owner)}: it declares {name} and is no dataclass, so that {name} is no field",
                    f"write @dataclasses.dataclass({frozen}kw_only=True) above it",
                )
            if fields[name].default is dataclasses.MISSING:
                raise PluginError(
                    f"{described(owner)}: field {name} has no default",
                    f"each needs one, of the type that it has: write {name}: {getattr(hint, '__name__', hint)} = ...",
                )


def _warn_of_name(cls: type, name: str, renamed: Mapping[str, str]) -> None:
    if name.startswith("_"):
        return
    known = [one for base in cls.__mro__[1:] if not is_of_plugin(base) for one in dir(base) if not one.startswith("_")]
    if any(name in vars(base) for base in cls.__mro__[1:]):
        return
    if name in renamed:
        instead = f"write {renamed[name]}" if renamed[name] else "leave it out"
        log.warning("%s: nothing reads %s, which is of Tensor2Tensor; %s", described(cls), name, instead)
    elif (near := difflib.get_close_matches(name, known, n=1, cutoff=_SIMILAR)) and near[0] not in vars(cls):
        log.warning("%s: nothing of t2t reads %s; did you mean %s?", described(cls), name, near[0])


def _check_override(cls: type, owner: type, name: str, value: Any) -> None:
    inherited = inspect.getattr_static(owner, name)
    if isinstance(inherited, types.FunctionType | classmethod | staticmethod):
        if not isinstance(value, types.FunctionType | classmethod | staticmethod):
            if value is not None and not callable(value):
                raise _wrong(cls, name, f"is {_shown(value)}", "is a method; define it by def")
            return
        _check_parameters(cls, name, getattr(cls, name), getattr(owner, name))
        # A problem of the project may return less than its base class says; that binds no class derived from it.
        first = next(vars(base)[name] for base in reversed(cls.__mro__) if name in vars(base))
        if isinstance(value, types.FunctionType) and isinstance(first, types.FunctionType):
            setattr(cls, name, _checking_result(cls, value, first))
        elif isinstance(value, classmethod) and isinstance(first, classmethod):
            setattr(cls, name, classmethod(_checking_result(cls, value.__func__, first.__func__)))
    elif not isinstance(inherited, property) and not isinstance(value, property):
        _check_value(cls, name, value, inherited)


def _check_parameters(cls: type, name: str, method: Callable[..., Any], inherited: Callable[..., Any]) -> None:
    """Raises PluginError for a method that cannot be called as the one that it overrides."""
    parameters = dict(inspect.signature(inherited).parameters)
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [one for one in parameters.values() if one.default is one.empty and one.kind in by_position]
    optional = {name: None for name, one in parameters.items() if one.default is not one.empty}
    try:
        inspect.signature(method).bind(*positional, **optional)
    except TypeError as error:
        takes = ", ".join([*(one.name for one in positional if one.name != "self"), *(f"{one}=" for one in optional)])
        defaults = (f"{one}={parameters[one].default}" for one in optional)
        signature = ", ".join([*(one.name for one in positional), *defaults])
        raise PluginError(
            f"{described(cls)}: its {name} is called as {name}({takes}) and takes other arguments: {error}",
            f"write def {name}({signature})",
        ) from None


def _check_value(cls: type, name: str, value: Any, inherited: Any) -> None:
    if isinstance(inherited, type):
        if not (isinstance(value, type) and issubclass(value, inherited)):
            needed = f"must be a class that derives from {inherited.__module__}.{inherited.__qualname__}"
            raise _wrong(cls, name, f"is {_shown(value)}", needed)
        if dataclasses.is_dataclass(inherited):
            check_dataclass(value)
    elif isinstance(inherited, bool | int | float | str):
        allowed = {float: (float, int), int: (int,), bool: (bool,), str: (str,)}[type(inherited)]
        if type(value) not in allowed and not hasattr(value, "__get__"):
            raise _wrong(cls, name, f"is {_shown(value)}", f"must be of type {type(inherited).__name__}")
    elif isinstance(inherited, tuple) and inherited:
        kinds = tuple({type(element) for element in inherited if element is not None})
        elements = value if isinstance(value, tuple | list) else ()
        members = [member for kind in kinds if issubclass(kind, enum.Enum) for member in kind]  # a StrEnum's are texts
        wrong = [one for one in elements if not (one is None or isinstance(one, kinds) or one in members)]
        if (not isinstance(value, tuple | list) and not hasattr(value, "__get__")) or wrong:
            listed = " or ".join(sorted(kind.__name__ for kind in kinds)) or "values"
            raise _wrong(
                cls, name, f"is {_shown(value)}", f"must be a tuple of {listed}; of one element: {name} = (..., )"
            )
    elif isinstance(inherited, Mapping) and not isinstance(value, Mapping):
        raise _wrong(cls, name, f"is {_shown(value)}", "must be a dict")


def _checking_result(cls: type, method: Callable[..., Any], inherited: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method that compares what it returns with the annotation of the one that it overrides."""
    try:
        hint = typing.get_type_hints(inherited).get("return", Any)
    except NameError:  # of a type that is only imported for type checkers
        return method
    is_iterator = getattr(typing.get_origin(hint), "__module__", "") == "collections.abc" and "Iterator" in str(hint)
    is_free = hint in (Any, bool, int, types.NoneType) or isinstance(hint, typing.TypeVar) or is_iterator
    if is_free or inspect.isgeneratorfunction(method):
        return method
    is_plain = isinstance(hint, type) and not typing.get_args(hint)
    needed = hint.__name__ if is_plain else re.sub(r"\b(\w+\.)+(?=\w)", "", str(hint))

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        if not _fits(result, hint):
            raise _wrong(cls, method.__name__, f"returned {_shown(result)}", f"must return {needed}", method)
        return result

    return checked


def _fits(value: Any, hint: Any) -> bool:
    """Returns whether a value is of an annotated type; of sequences and dicts, a few elements are checked."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, str | typing.TypeVar | typing.ForwardRef):
        return True
    if hint is None:
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is None:
        kind = {float: numbers.Real, int: numbers.Integral}.get(hint, hint)
        return isinstance(value, kind) if isinstance(hint, type) else True
    if not isinstance(origin, type):
        return True
    if origin is tuple and isinstance(value, list):  # reads the same
        origin = list
    if origin is list and isinstance(value, tuple):
        origin = tuple
    if not isinstance(value, origin) or (isinstance(value, str) and origin is not str):
        return False
    if isinstance(value, Mapping) and len(arguments) == 2:
        return all(_fits(one, arguments[1]) for one in list(value.values())[:_ELEMENTS])
    if isinstance(value, Sequence) and arguments and (len(arguments) == 1 or arguments[-1] is Ellipsis):
        return all(_fits(one, arguments[0]) for one in value[:_ELEMENTS])
    return True


def _shown(value: Any) -> str:
    if isinstance(value, type | types.FunctionType):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    is_container = isinstance(value, Mapping | tuple | list)
    elements = list(value.values() if isinstance(value, Mapping) else value) if is_container else [value]
    if all(one is None or isinstance(one, bool | int | float | str) for one in elements):
        return shown if len(shown := one_line(repr(value))) <= _SHOWN else shown[:_SHOWN] + "..."
    kinds = ", ".join(dict.fromkeys(type(one).__name__ for one in elements))
    return f"a {type(value).__name__} of {kinds}" if is_container else f"a {kinds}"


def _wrong(cls: type, name: str, found: str, needed: str, where: Any = None) -> PluginError:
    return PluginError(f"{described(where or cls)}: {name} of {cls.__name__} {found}", f"it {needed}")
