"""What all commands share: flags of their own, one-line errors, quiet start.

Flags are absl's, on a `FlagValues` for each command, so that `main(argv)` can run twice in one process; `--flag-name`
and `--flag_name` are the same. TensorFlow is imported after the flags have been read.
"""

import contextlib
import errno
import functools
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import flags

from t2t.cli.help import help_text
from t2t.cli.stopping import StoppedError, stoppable
from t2t.errors import MachineError, T2TError, UnknownNameError, UserError, did_you_mean, one_line
from t2t.files.atomic import REMEDIES, describe_os_error
from t2t.files.paths import check_local, is_unknown_home
from t2t.files.progress import write_above_bars, write_line

Main = Callable[..., int]
Body = Callable[[flags.FlagValues], int]
_LARGEST = 2**63 - 1

ALL = "*"
"""Value of `--registry_help` given bare."""


def command(
    build_flags: Callable[[], flags.FlagValues], usage: str, positional: tuple[str, ...] = ()
) -> Callable[[Body], Main]:
    """Makes `main(argv=None) -> exit status` of a function that is given the flags, read.

    Errors of the user and of the machine become one line; `--help` is answered here.

    Args:
        build_flags: makes the flags.
        usage: text above them in the help; %s is the command's name.
        positional: names of flags that may be given as plain arguments, in this order, too.
    """

    def decorate(body: Body) -> Main:
        @functools.wraps(body)
        def main(argv: list[str] | None = None) -> int:
            argv = list(sys.argv if argv is None else argv)
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(errors="backslashreplace")  # what cannot be shown ends nothing
            return _guarded(
                os.path.basename(argv[0]), lambda: _read_and_run(body, build_flags(), argv, usage, positional)
            )

        return main

    return decorate


def _read_and_run(
    body: Body, values: flags.FlagValues, argv: list[str], usage: str, positional: tuple[str, ...]
) -> int:
    read = parse(values, argv, usage, positional)
    return 0 if read is None else body(read)


def _guarded(name: str, run: Callable[[], int]) -> int:
    """Runs a command; returns its exit status."""
    try:
        with stoppable(), logging_to_stderr():
            return run()
    except T2TError as error:
        write_line(f"{name}: error: {one_line(error)}", sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reader has gone; nothing more to say to it
        return 0
    except OSError as error:
        fault = _fault_of(error)
        if fault is None:
            raise
        write_line(f"{name}: error: {fault}", sys.stderr)
        return fault.exit_status
    except KeyboardInterrupt:
        write_line(f"{name}: interrupted", sys.stderr)
        return 128 + signal.SIGINT
    except StoppedError as stopped:
        write_line(f"{name}: {stopped}", sys.stderr)
        return stopped.exit_status


def _fault_of(error: OSError) -> T2TError | None:
    """Returns what an error of the system means for who has given the command; None where it is the program's own."""
    if error.errno == errno.ENAMETOOLONG:
        return UserError(f"{str(error.filename)[:60]}...: the name is longer than a file's may be; shorten it")
    return MachineError(describe_os_error(error)) if error.errno in REMEDIES else None


def parse(
    values: flags.FlagValues, argv: Sequence[str], usage: str, positional: tuple[str, ...] = ()
) -> flags.FlagValues | None:
    """Reads the command line; prints the help and returns None where it asks for that.

    Raises:
        UserError: an unknown flag, a value of another type or out of bounds, a flag given twice, an argument that is
            no flag where the command takes none or no more.
    """
    flags.DEFINE_boolean("help", False, "Shows this text.", short_name="h", flag_values=values)
    arguments = [_normalised(argument) for argument in argv[1:]]
    if "-h" in arguments or "--help" in arguments:
        print(help_text(values, os.path.basename(argv[0]), usage))
        return None
    _check_repeated(values, arguments)
    values.set_gnu_getopt(bool(positional))  # flags may follow plain arguments
    try:
        rest = values([argv[0], *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        known = [name for name in values if len(name) > 1]
        raise UnknownNameError(
            f"flag --{error.flagname} does not exist; {did_you_mean(error.flagname, known)}see --help"
        ) from error
    except flags.Error as error:
        raise UserError(f"{one_line(error)}; see --help") from error
    _take_positional(values, rest, positional)
    _check_values(values)
    return values


def _check_values(values: flags.FlagValues) -> None:
    """Refuses what absl takes and nothing here can use.

    `nan` and `inf` pass its bounds, since they compare as neither less nor more; whole numbers have none; a home folder
    may be nobody's, and a path may be of another file system.
    """
    for name in values:
        value = values[name].value
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"flag --{name}={value}: {value} is not a finite number; see --help")
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise UserError(f"flag --{name}: a number of {len(str(abs(value)))} digits is too large; see --help")
        if isinstance(value, str) and is_unknown_home(value):
            raise UserError(f"flag --{name}={value}: there is no home folder of that name; write the path without ~")
        if isinstance(value, str):
            check_local(value, name)


def _take_positional(values: flags.FlagValues, rest: Sequence[str], positional: tuple[str, ...]) -> None:
    """Gives plain arguments to the flags they stand for."""
    for name, argument in zip(positional, rest, strict=False):
        if values[name].present:
            raise UserError(f"argument {argument!r}: it stands for --{name}, which is given as well; keep one")
        values[name].value = argument
    if len(rest) > len(positional):
        takes = f"{' '.join(positional).upper()} and flags" if positional else "flags only"
        raise UserError(f"argument {rest[len(positional)]!r}: this command takes {takes}, --name=value; see --help")


def define_alias(name: str, original: str, flag_values: flags.FlagValues) -> None:
    """Gives a flag a second name."""
    flags.DEFINE_alias(name, original, flag_values=flag_values)
    flag_values[name].alias_of = original


def _normalised(argument: str) -> str:
    """Returns `--flag-name=x` as `--flag_name=x`, and a bare `--registry_help` with its value."""
    if not argument.startswith("--") or argument == "--":
        return argument
    name, equals, value = argument[2:].partition("=")
    name = name.replace("-", "_")
    if name == "registry_help" and not equals:
        equals, value = "=", ALL
    return f"--{name}{equals}{value}"


def _check_repeated(values: flags.FlagValues, arguments: list[str]) -> None:
    given: dict[str, str] = {}
    for argument in arguments:
        name = _flag_of(values, argument)
        if name is None or isinstance(values[name], flags.MultiFlag):
            continue
        if name in given:
            raise UserError(f"--{name} is given twice, {given[name]} and {argument}; keep one")
        given[name] = argument


def _flag_of(values: flags.FlagValues, argument: str) -> str | None:
    """Returns the first name of the flag that an argument sets, None where it is no flag."""
    name = argument[2:].partition("=")[0] if argument.startswith("--") else ""
    positive = name.removeprefix("no")
    if name not in values and positive in values and values[positive].boolean:
        name = positive
    return getattr(values[name], "alias_of", name) if name in values else None


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Shows what the library logs, a line each, for the length of a `with` block."""
    logger = logging.getLogger("t2t")
    handler = _BarSafeHandler(sys.stderr)
    handler.setFormatter(_Lines())
    level = logger.level
    # absl, with which TensorFlow logs, gives the root a handler where it has none: lines would be shown twice.
    silent = logging.NullHandler()
    logging.getLogger().addHandler(silent)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logging.getLogger().removeHandler(silent)
        logger.setLevel(level)


class _BarSafeHandler(logging.StreamHandler):
    """Log handler that prints above active progress bars and redraws them."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError), write_above_bars(self.stream):
            super().emit(record)


class _Lines(logging.Formatter):
    """Plain lines; warnings say that they are."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"
