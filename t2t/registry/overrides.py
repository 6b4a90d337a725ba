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
_NUMBERS = {float: "__float__", int: "__index__"}
"""Type -> the method that values have which are as good, those of numpy and tensors among them."""
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
    name = getattr(owner, "__qualname__", None) or type(owner).__qualname__
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
        raise PluginError(f"{described(owner)} {what}{place}: {message_of(error)}", cure_of(error)) from error


def cure_of(error: BaseException) -> str:
    """Returns what to do about an exception in code of a plug-in."""
    return "correct its code, or give it that file" if isinstance(error, FileNotFoundError) else "correct its code"


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
        if owner is not None and name in _fields_of(owner):
            if name not in inspect.get_annotations(cls):
                raise PluginError(
                    f"{described(cls)}: {name} without a type is not a field and would have no effect",
                    f"write {name}: {type(getattr(owner, name)).__name__} = ..., or set it in the hparams set",
                )
        elif owner in (None, object):
            _warn_of_name(cls, name, renamed or {})
        elif (not name.startswith("__") or name == "__call__") and not isinstance(value, dataclasses.Field):
            _check_override(cls, owner, name, value)


def check_registered(value: Any, called: Callable[..., Any] | None) -> None:
    """Checks what a plug-in registers.

    Args:
        value: class or function; nothing is done for one of this package.
        called: has the parameters that it is called with; None if they are not known.

    Raises:
        PluginError: a class that lacks methods or attributes, or `@dataclass`; or other parameters.
    """
    if not is_of_plugin(value):
        return
    if isinstance(value, type):
        names = {name for base in value.__mro__ if not is_of_plugin(base) for name in inspect.get_annotations(base)}
        unset = [name for name in sorted(names) if not hasattr(value, name) and _is_class_variable(value, name)]
        if lacking := [*sorted(getattr(value, "__abstractmethods__", ())), *unset]:
            advice = ", ".join(f"{name} = ..." if name in unset else _definition_of(value, name) for name in lacking)
            raise PluginError(f"{described(value)}: it has no {' and no '.join(lacking)}", f"write {advice}")
        if dataclasses.is_dataclass(value):
            check_dataclass(value, needs_defaults=False)
    if called is not None:
        _check_call(value, called)


def _is_class_variable(cls: type, name: str) -> bool:
    return any("ClassVar" in str(inspect.get_annotations(base).get(name, "")) for base in cls.__mro__)


def _definition_of(cls: type, name: str) -> str:
    """Returns how an abstract method of a class is defined, e.g. `def piece(self, token_id)`."""
    method = inspect.getattr_static(cls, name)
    if isinstance(method, property):
        return f"@property def {name}(self)"
    function = getattr(method, "__func__", method)
    mark = "@classmethod " * isinstance(method, classmethod)
    return f"{mark}def {name}({', '.join(inspect.signature(function).parameters)})"


def _check_call(value: Any, called: Callable[..., Any]) -> None:
    """Raises PluginError for a class or function that does not take the parameters of `called`.

    Parameters of `called` with a default are passed only to those that have them.
    """
    parameters = inspect.signature(called).parameters.values()
    keywords = [one for one in parameters if one.kind == one.KEYWORD_ONLY]
    positional, by_name = [one.name for one in parameters if one not in keywords], [one.name for one in keywords]
    has_init = isinstance(value, type) and value.__init__ is not object.__init__  # type: ignore[misc]
    try:
        signature = inspect.signature(value.__init__ if has_init else value)
        by_name = [one.name for one in keywords if one.default is one.empty or one.name in signature.parameters]
        signature.bind(*["self"] * has_init, *positional, **dict.fromkeys(by_name))
    except TypeError as error:
        is_class, name = isinstance(value, type), getattr(value, "__name__", type(value).__name__)
        given = ", ".join([*positional, *(f"{one}=" for one in by_name)])
        needed = ", ".join([*["self"] * is_class, *positional, *["**kwargs"] * bool(by_name)])
        raise PluginError(
            f"{described(value)}: it is called as {name}({given}) and takes other arguments: {error}",
            f"write def {'__init__' if is_class else name}({needed})",
        ) from None
    except ValueError:  # of a function in C, which says nothing about its parameters
        return


def _fields_of(cls: type) -> set[str]:
    """Returns the names of the fields of a class that is a dataclass itself."""
    return {one.name for one in dataclasses.fields(cls)} if "__dataclass_fields__" in vars(cls) else set()


def check_dataclass(cls: type, needs_defaults: bool = True) -> None:
    """Checks that the annotated attributes of a class are fields of a dataclass, each with a default if that is needed.

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
                    f"{described(owner)}: it declares {name} and is not a dataclass, so that {name} is not a field",
                    f"write @dataclasses.dataclass({frozen}kw_only=True) above it",
                )
            if needs_defaults and fields[name].default is dataclasses.MISSING:
                raise PluginError(
                    f"{described(owner)}: field {name} has no default",
                    f"each needs one, of the type that it has: write {name}: {getattr(hint, '__name__', hint)} = ...",
                )


def _warn_of_name(cls: type, name: str, renamed: Mapping[str, str]) -> None:
    if name.startswith("_"):
        return
    known = [one for base in cls.__mro__[1:] if not is_of_plugin(base) for one in dir(base) if not one.startswith("_")]
    if any(name in vars(base) or name in inspect.get_annotations(base) for base in cls.__mro__[1:]):
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
                raise _wrong(cls, name, f"is {shown(value)}", "is a method; define it by def")
            return
        if isinstance(inherited, classmethod) and isinstance(value, types.FunctionType):
            raise _wrong(cls, name, "is a method of objects", "is called on the class; write @classmethod above it")
        _check_parameters(cls, name, getattr(cls, name), getattr(owner, name))
        # A problem of the project may return less than its base class says; that binds no class derived from it.
        first = next(vars(base)[name] for base in reversed(cls.__mro__) if name in vars(base))
        if isinstance(value, types.FunctionType) and isinstance(first, types.FunctionType):
            setattr(cls, name, _checking_result(cls, value, first))
        elif isinstance(value, classmethod) and isinstance(first, classmethod):
            setattr(cls, name, classmethod(_checking_result(cls, value.__func__, first.__func__)))
    elif isinstance(inherited, property) and isinstance(value, types.FunctionType):
        raise _wrong(cls, name, "is a method", "is read without a call; write @property above it")
    elif not isinstance(inherited, property) and not isinstance(value, property):
        _check_value(cls, name, value, inherited)
        hint = _hint_of(owner, name) if inherited is None else Any
        if not _fits(value, hint):
            raise _wrong(cls, name, f"is {shown(value)}", f"must be {_name_of(hint)}")


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
            raise _wrong(cls, name, f"is {shown(value)}", needed)
        if dataclasses.is_dataclass(inherited):
            check_dataclass(value)
    elif isinstance(inherited, bool | int | float | str):
        allowed = {float: (float, int), int: (int,), bool: (bool,), str: (str,)}[type(inherited)]
        if type(value) not in allowed and not hasattr(value, "__get__"):
            raise _wrong(cls, name, f"is {shown(value)}", f"must be of type {type(inherited).__name__}")
    elif isinstance(inherited, tuple) and inherited:
        kinds = tuple({type(element) for element in inherited if element is not None})
        elements = value if isinstance(value, tuple | list) else ()
        members = [member for kind in kinds if issubclass(kind, enum.Enum) for member in kind]  # a StrEnum's are texts
        wrong = [one for one in elements if not (one is None or isinstance(one, kinds) or one in members)]
        if (not isinstance(value, tuple | list) and not hasattr(value, "__get__")) or wrong:
            listed = " or ".join(sorted(kind.__name__ for kind in kinds)) or "values"
            raise _wrong(
                cls, name, f"is {shown(value)}", f"must be a tuple of {listed}; of one element: {name} = (..., )"
            )
    elif isinstance(inherited, Mapping) and not isinstance(value, Mapping):
        raise _wrong(cls, name, f"is {shown(value)}", "must be a dict")


def _checking_result(cls: type, method: Callable[..., Any], inherited: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method that compares what it returns with the annotation of the one that it overrides."""
    try:
        hint = typing.get_type_hints(inherited).get("return", Any)
    except NameError:  # of a type that is only imported for type checkers
        return method
    is_iterator = getattr(typing.get_origin(hint), "__module__", "") == "collections.abc" and "Iterator" in str(hint)
    is_free = hint in (Any, bool, types.NoneType) or isinstance(hint, typing.TypeVar) or is_iterator
    if is_free or inspect.isgeneratorfunction(method):
        return method

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        if not _fits(result, hint):
            raise _wrong(cls, method.__name__, f"returned {shown(result)}", f"must return {_name_of(hint)}", method)
        return result

    return checked


def _hint_of(owner: type, name: str) -> Any:
    """Returns the annotation of an attribute; Any if it is not known."""
    try:
        hint = typing.get_type_hints(owner).get(name, Any)
    except NameError:  # of a type that is only imported for type checkers
        return Any
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.ClassVar else hint


def _fits(value: Any, hint: Any) -> bool:
    """Returns whether a value is of an annotated type; of sequences and dicts, a few elements are checked."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, str | typing.TypeVar | typing.ForwardRef):
        return True
    if hint is None:
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is None and isinstance(hint, type):
        if number := _NUMBERS.get(hint):
            return hasattr(value, number)
        if hint.__name__ == "ndarray":  # or what numpy makes an array of
            return value is not None and not isinstance(value, str | Mapping)
        return isinstance(value, hint)
    if not isinstance(origin, type):
        return True
    if issubclass(origin, Sequence) and hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        # Tuples, lists and arrays are read in the same way.
        if isinstance(value, str | bytes | Mapping):
            return False
    elif not isinstance(value, origin) or isinstance(value, str):
        return False
    if isinstance(value, Mapping) and len(arguments) == 2:
        return all(_fits(one, arguments[1]) for one in list(value.values())[:_ELEMENTS])
    if issubclass(origin, Sequence) and arguments and (len(arguments) == 1 or arguments[-1] is Ellipsis):
        return all(_fits(one, arguments[0]) for one in value[:_ELEMENTS])
    return True


def _name_of(hint: Any) -> str:
    is_plain = isinstance(hint, type) and not typing.get_args(hint)
    return hint.__name__ if is_plain else re.sub(r"\b(\w+\.)+(?=\w)", "", str(hint))


def shown(value: Any) -> str:
    """Returns a wrong value for a message; of an object its type."""
    if isinstance(value, type | types.FunctionType):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    is_container = isinstance(value, Mapping | tuple | list)
    elements = list(value.values() if isinstance(value, Mapping) else value) if is_container else [value]
    if all(one is None or isinstance(one, bool | int | float | str) for one in elements):
        return text if len(text := one_line(repr(value))) <= _SHOWN else text[:_SHOWN] + "..."
    kinds = ", ".join(dict.fromkeys(type(one).__name__ for one in elements))
    return f"a {type(value).__name__} of {kinds}" if is_container else f"a {kinds}"


def _wrong(cls: type, name: str, found: str, needed: str, where: Any = None) -> PluginError:
    return PluginError(f"{described(where or cls)}: {name} of {cls.__name__} {found}", f"it {needed}")
