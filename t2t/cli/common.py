"""Shared code of all commands: flag parsing, one-line errors, logging.

Flags are absl flags on a separate `FlagValues` for each call, so that `main(argv)` can run twice in one process.
"""

import contextlib
import errno
import functools
import itertools
import logging
import math
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TextIO

from absl import flags

from t2t.cli.config import apply_config, read_config
from t2t.cli.flags import ALL, describe_flag_error, has_flag, help_text
from t2t.cli.stopping import StoppedError, stoppable
from t2t.cli.tensor2tensor import answer_unused_flags, apply_decode_hparams
from t2t.errors import MachineError, T2TError, UnknownNameError, UserError, ask_for, one_line
from t2t.files.atomic import REMEDIES, describe_os_error, os_errors_as_machine_errors
from t2t.files.lines import without_surrogates
from t2t.files.output import ReaderClosedError
from t2t.files.paths import (
    address_of,
    check_address,
    check_local,
    is_unknown_home,
    join_names,
    local_path,
    named_files,
    names_zoo,
    with_addresses,
    zoo_in,
)
from t2t.files.progress import write_above_bars, write_line
from t2t.files.remote.mirror import fetch
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import meant_by
from t2t.registry.overrides import PluginError
from t2t.registry.plugins import plugin_error, use_no_usr_dir, with_usr_dir
from t2t.runs.startup import load_plugins_quietly, start_command

Main = Callable[..., int]
Body = Callable[[flags.FlagValues], int]
_LARGEST = 2**63 - 1

log = logging.getLogger("t2t")


def command(
    build_flags: Callable[[], flags.FlagValues], usage: str, positional: tuple[str, ...] = ()
) -> Callable[[Body], Main]:
    """Decorator that turns a function of the parsed flags into `main(argv=None) -> exit status`.

    Errors are printed as one line. `usage` is printed above the flags in the help, see `help_text`. Flags named in
    `positional` may also be given as positional arguments, in this order.
    """

    def decorate(body: Body) -> Main:
        @functools.wraps(body)
        def main(argv: list[str] | None = None) -> int:
            argv = list(sys.argv if argv is None else argv)
            start_command()
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(errors="backslashreplace")  # no crash on characters that stdout cannot encode

            use_no_usr_dir()

            def run() -> int:
                values = parse(build_flags(), argv, usage, positional)
                if values is None:
                    return 0
                with zoo_in(values.zoo_dir if "zoo_dir" in values else ""):
                    mirror_files(values)
                    return body(values)

            return _guarded(os.path.basename(argv[0]), run)

        main.positional = positional  # type: ignore[attr-defined]
        return main

    return decorate


_OF_TENSORFLOW = ("tensorflow", "tensorflow_text", "tensorflow_datasets", "tensorboard")
"""Dependencies without which much of the package still works."""


def _guarded(name: str, run: Callable[[], int]) -> int:
    """Runs a command; returns its exit status."""
    try:
        with stoppable(), logging_to_stderr():
            status = run()
            if sys.stdout is not None:
                sys.stdout.flush()  # errors of what is still to be written are this command's, too
            return status
    except KeyboardInterrupt:
        write_line(f"{name}: interrupted", sys.stderr)
        return 128 + signal.SIGINT
    except StoppedError as stopped:
        write_line(f"{name}: {stopped}", sys.stderr)
        return stopped.exit_status
    except Exception as raised:
        if isinstance(raised, BrokenPipeError) and (_drop_unread(sys.stdout) or isinstance(raised, ReaderClosedError)):
            return 0
        error = raised if isinstance(raised, T2TError) else _fault_of(raised)
        if error is None:
            raise
        if isinstance(error, PluginError) and (cause := raised if raised is not error else raised.__cause__):
            write_line("".join(traceback.format_exception(cause)).removesuffix("\n"), sys.stderr)
        text = with_usr_dir(one_line(error))
        write_line(f"{name}: error: {with_addresses(text) if isinstance(error, UserError) else text}", sys.stderr)
        return error.exit_status


def _drop_unread(stream: TextIO) -> bool:
    """Returns whether the reader of a stream has closed it; then drops the rest, which Python writes at its end."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)  # only errors, a closed pipe among them
        if not poll.poll(0):
            return False
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
    except (OSError, ValueError, AttributeError):  # it has no file of the system
        return False
    return True


def _fault_of(error: Exception) -> T2TError | None:
    """Converts an exception into an error for the user; returns None for one that indicates a bug of ours."""
    if found := plugin_error(error):
        return found
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package not in _OF_TENSORFLOW:
            return None
        return MachineError(
            f"it needs the package {package}, which is not installed",
            f"pip install {package.replace('_', '-')}, or set KERAS_BACKEND=jax for what works on JAX (docs/jax.md)",
        )
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENAMETOOLONG:
        return UserError(f"{str(error.filename)[:60]}...: the name is longer than a file's may be", "shorten it")
    return MachineError(describe_os_error(error)) if error.errno in REMEDIES else None


def parse(
    values: flags.FlagValues, argv: Sequence[str], usage: str, positional: tuple[str, ...] = ()
) -> flags.FlagValues | None:
    """Parses the command line; prints the help and returns None if it asks for that.

    Raises:
        UserError: an unknown flag, a wrong value, a flag given twice, a refused flag of Tensor2Tensor, or too many
            positional arguments.
    """
    flags.DEFINE_boolean("help", False, "Shows this text.", short_name="h", flag_values=values)
    arguments = [_normalised(values, argument) for argument in argv[1:]]
    if "-h" in arguments or "--help" in arguments:  # whatever else is wrong
        print(help_text(values, os.path.basename(argv[0]), usage))
        return None
    _define_plugin_options(values, arguments)
    _check_repeated(values, arguments)
    values.set_gnu_getopt(bool(positional))  # flags may follow positional arguments
    try:
        rest = values([argv[0], *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        raise UnknownNameError(
            f"flag --{error.flagname} does not exist", f"{_did_you_mean(error.flagname, values)}see --help"
        ) from error
    except flags.Error as error:
        raise UserError(describe_flag_error(error), "see --help") from error
    if values.help:
        print(help_text(values, os.path.basename(argv[0]), usage))
        return None
    _take_positional(values, rest, positional)
    if "config" in values:
        apply_config(values)
    answer_unused_flags(values)
    if "decode_hparams" in values and values.decode_hparams:
        apply_decode_hparams(values)
    check_values(values)
    return values


def _did_you_mean(name: str, values: flags.FlagValues) -> str:
    """Proposes flags, and hparams if the command has a flag for these, in place of an unknown flag."""
    from t2t.runs.names import hparam_names  # which many commands do not need

    known = {flag: f"--{flag}" for flag in values if len(flag) > 1 and has_flag(values, flag)}
    if "hparams" in known:
        trains = "train_steps" in known
        hparams = hparam_names(values["hparams_set"].value) if trains else [one.name for one in fields(DecodeHParams)]
        known = {hparam: f"--hparams={hparam}=..." for hparam in hparams} | known
    return ask_for([known[one] for one in ([name] if name in known else meant_by(name, known))])


def _define_plugin_options(values: flags.FlagValues, arguments: Sequence[str]) -> None:
    """Defines the flags of plug-ins' problems if one may be given; the folder may be named by the --config file."""
    takes_options = "vocab_kind" in values
    names = [argument[2:].partition("=")[0] for argument in arguments if argument.startswith("--") and takes_options]
    given = {name: after for name, after in itertools.pairwise(arguments) if "=" not in name}
    given |= {name: value for name, equals, value in (one.partition("=") for one in arguments) if equals}
    usr_dir = given.get("--t2t_usr_dir", "")
    if "config" in values and (path := given.get("--config", "")):
        found = read_config(local_path(path))[1]
        names += found
        usr_dir = usr_dir or str(found.get("t2t_usr_dir", ""))
    if names:
        from t2t.cli.problem_flags import define_plugin_options  # which most commands do not need

        define_plugin_options(values, names, usr_dir)


def _take_positional(values: flags.FlagValues, rest: Sequence[str], positional: tuple[str, ...]) -> None:
    """Assigns positional arguments to their flags; a repeatable last flag takes all remaining ones."""
    if positional and isinstance(values[positional[-1]], flags.MultiFlag):
        several, first = values[positional[-1]], len(positional) - 1
        several.value, rest = [*several.value, *rest[first:]], rest[:first]
    for name, argument in zip(positional, rest, strict=False):
        if values[name].present:
            raise UserError(f"argument {argument!r}: it stands for --{name}, which is given as well", "keep one")
        values[name].value = argument
    if len(rest) > len(positional):
        takes = f"{' '.join(positional).upper()} and flags" if positional else "flags only"
        raise UserError(f"argument {rest[len(positional)]!r}: this command takes {takes}, --name=value", "see --help")


def _normalised(values: flags.FlagValues, argument: str) -> str:
    """Returns `--flag-name=x` and `-flag_name=x` as `--flag_name=x`, and a bare `--registry_help` with its value."""
    if not argument.startswith("-") or argument == "--":
        return argument
    name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
    name = name.replace("-", "_")
    if not argument.startswith("--") and (len(name) < 2 or _flag_of(values, f"--{name}") is None):
        return argument  # "-", -h, or a value such as -5 or -best
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
            raise UserError(f"--{name} is given twice, {given[name]} and {argument}", "keep one")
        given[name] = argument


def _flag_of(values: flags.FlagValues, argument: str) -> str | None:
    """Returns the name of the flag that an argument sets, with aliases resolved; None if it sets no flag."""
    name = argument[2:].partition("=")[0] if argument.startswith("--") else ""
    positive = name.removeprefix("no")
    if name not in values and positive in values and values[positive].boolean:
        name = positive
    return getattr(values[name], "alias_of", name) if name in values else None


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Prints the library's log to standard error inside a `with` block."""
    handler = _BarSafeHandler(sys.stderr)
    handler.setFormatter(_Lines())
    level = log.level
    silent = logging.NullHandler()  # keeps absl from adding a root handler, which would print lines twice
    logging.getLogger().addHandler(silent)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        logging.getLogger().removeHandler(silent)
        log.setLevel(level)


class _BarSafeHandler(logging.StreamHandler):
    """Log handler that prints above active progress bars and redraws them."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError), write_above_bars(self.stream):
            super().emit(record)


class _Lines(logging.Formatter):
    """Formats records as plain lines; warnings and errors are prefixed with their level."""

    def format(self, record: logging.LogRecord) -> str:
        text = with_usr_dir(with_addresses(super().format(record)))
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


_FOLDERS = ("data_dir", "tmp_dir", "output_dir", "distilled_data_dir", "export_dir", "checkpoint", "warm_start_from")
_CORPORA = tuple(
    f"{split}_{side}" for split in ("train", "dev", "test") for side in ("source", "target", "file", "trees", "scores")
)
"""Read only while data is generated; `mirror_files` does not fetch them."""
_INPUT_FILES = (
    "decode_from_file", "score_file", "align_file", "target_prefix_file", "constraints_file", "unknown_dictionary",
    "parity_file", "vocab_file", "translation", "reference", "decode_reference", "source", "gold", "test", "param_file",
)  # fmt: skip
_LISTS = ("vocab_file", "reference", "decode_reference")
"""Input files of which several may be named, with commas between them."""
_EXPANDED_LATER = "vocab_file"
"""Kept as it is, for messages; where it is read, `~` is expanded."""
_OUTPUT_FILES = ("decode_to_file",)
_LOCAL_FILES = ("choice_file", "attention_to_html", "plot")
"""Other files, which lie on this machine."""
_WEB = ("server", "storage")
"""URLs of a server and a database, which are not checked as object store addresses."""
_ZOO = ("output_dir", "checkpoint", "warm_start_from", "folder")
"""Flags of runs, which may be in a zoo."""
TEXTS = ("inputs_once",)
"""Flags that hold text: it may look like a path or an address."""
_SHARED = ("data_dir", *_OUTPUT_FILES)
"""Flags whose files or folders several processes write together."""


def check_values(values: flags.FlagValues) -> None:
    """Raises UserError for values that absl accepts: nan and inf, huge integers, names that are not registered.

    Also for a path that is not UTF-8 or in an unknown home folder, a malformed address, or one where a path is needed.
    """
    # Data generation with --shard may also use an object store; decoding with it and Apache Beam may not.
    shares = ["beam_options"] if "beam_options" in values else []
    shares += ["shard", "merge"] if "decode_to_file" in values and "shard" in values else []
    sharing = next((f"--{name}" for name in shares if values[name].value), "")
    for name in values:
        flag, value = values[name], values[name].value
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"flag --{name}={value}: {value} is not a finite number", "see --help")
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise UserError(f"flag --{name}: a number of {len(str(abs(value)))} digits is too large", "see --help")
        registry = getattr(flag, "registry", None)
        if registry is not None and value is not None and value not in registry:
            load_plugins_quietly(values.t2t_usr_dir if "t2t_usr_dir" in values else "")
            if value not in registry:
                raise UserError(registry.unknown(value), option=name, value=value)
        is_text = name in (*_WEB, *TEXTS) or hasattr(flag, "unused") or hasattr(flag, "alias_of")
        if isinstance(value, str) and value and not is_text:
            _check_path(name, value, sharing)


def _check_path(name: str, value: str, sharing: str) -> None:
    """Checks the value of a flag that may be a path; `sharing` is the flag that divides work among processes, or ""."""
    if value.startswith("~") and is_unknown_home(value):
        raise UserError(f"flag --{name}={value}: there is no home folder of that name", "write the path without ~")
    if without_surrogates(value) != value:
        raise UserError(f"flag --{name}={value!r}: it contains bytes that are not UTF-8", "rename the file or folder")
    if names_zoo(value) and name not in _ZOO:
        raise UserError("only runs are in a zoo", "name a path of another folder", option=name, value=value)
    if name not in (*_FOLDERS, *_CORPORA, *_INPUT_FILES, *_OUTPUT_FILES):
        check_local(value, name)
        return
    for part in map(str.strip, value.split(",")):  # several runs
        check_address(part, name)
        if sharing and name in _SHARED and address_of(local_path(part)):
            raise UserError(
                f"{sharing}: --{name}={part} is in an object store, and what shares the work shares a folder",
                "name one that all of them see, on a file system with locks",
            )


def mirror_files(values: flags.FlagValues) -> None:
    """Downloads input files from object stores; replaces addresses of files by local mirrors, and `~` by its folder.

    Folders and the files of problems are expanded where they are used.

    Raises:
        MachineError: the store refuses or does not answer.
    """
    for name in (*_INPUT_FILES, *_OUTPUT_FILES, *_LOCAL_FILES):
        if not has_flag(values, name) or not (value := values[name].value):
            continue
        paths = named_files(value) if name in _LISTS else [local_path(value)]
        if any(map(address_of, paths)):
            if name in _INPUT_FILES:
                with os_errors_as_machine_errors(f"cannot read {value}"):
                    fetch(*paths)
            values[name].value = join_names(paths)
        elif name != _EXPANDED_LATER and (value.startswith("~") or (name in _LISTS and ",~" in value)):
            values[name].value = join_names(paths)
