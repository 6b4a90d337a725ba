"""Text of `--help`: the usage of a command, then its flags in groups, wrapped to fit a terminal."""

import contextlib
import functools
import re
import textwrap
from collections.abc import Iterator
from types import SimpleNamespace

from absl import flags

WIDTH = 100
"""Columns of the longest line."""

LONGEST_S = 1e9
"""Upper bound of flags that are times, in seconds: some waits fail beyond 2^63 ns."""

NAMES, RUN, FILES, DATA, TRAINING, WARM_START = "Names", "Run", "Files", "Data", "Training", "Warm start"
ACTION, OUTPUT, DECODING, MACHINE = "What to do", "Output", "Decoding", "Machine"
FILTERS = "Filters of training data"
_ORDER = (NAMES, RUN, FILES, ACTION, DATA, FILTERS, TRAINING, WARM_START, OUTPUT, DECODING, MACHINE)
"""Shared headings in the order of the help; headings of a single command follow."""

_KINDS = ("boolean", "enum", "float", "integer", "list", "multi_string", "string")
_REPEATED = re.compile(r";\s+repeat this option to specify a list of values")
_FIXED_SPACE = "\u00a0"


@contextlib.contextmanager
def flag_group(values: flags.FlagValues, heading: str) -> Iterator[SimpleNamespace]:
    """Puts the flags defined in a `with` block under a help heading; yields absl's DEFINE functions, `.string(...)`."""
    before = set(values)
    yield SimpleNamespace(
        **{kind: functools.partial(getattr(flags, f"DEFINE_{kind}"), flag_values=values) for kind in _KINDS}
    )
    for name in set(values) - before:
        values[name].heading = heading


def help_text(values: flags.FlagValues, name: str, usage: str) -> str:
    """Returns the usage of a command and its flags by group, in the order of definition.

    In the usage, %s is the command's name. Paragraphs with an indented line are kept as they are; others are wrapped.
    """
    paragraphs = [
        paragraph if "\n " in f"\n{paragraph}" else textwrap.fill(paragraph, WIDTH, break_on_hyphens=False)
        for paragraph in usage.strip().replace("%s", name).split("\n\n")
    ]
    return "\n\n".join([*paragraphs, *_groups(values), *_unused(values)])


def _unused(values: flags.FlagValues) -> Iterator[str]:
    """Yields one paragraph that lists the flags of `t2t.cli.tensor2tensor`, if there are any."""
    if names := [f"--{name}" for name in values if hasattr(values[name], "unused") and values[name].name == name]:
        text = f"Flags of Tensor2Tensor that do nothing here, and say what to do instead: {', '.join(names)}."
        yield textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _groups(values: flags.FlagValues) -> Iterator[str]:
    by_heading: dict[str, list[str]] = {heading: [] for heading in _ORDER}
    second_names = {name: flag.alias_of for name in values if hasattr(flag := values[name], "alias_of")}
    for name in values:
        if values[name].name != name or name in second_names or name == "help":
            continue
        if hasattr(values[name], "unused"):
            continue
        also = [second for second, original in second_names.items() if original == name]
        by_heading.setdefault(values[name].heading, []).append(_describe_flag(values[name], also))
    for heading, described in by_heading.items():
        if described:
            yield "\n".join([f"{heading}:", *described])


def _describe_flag(flag: flags.Flag, second_names: list[str]) -> str:
    text = f"--{flag.name}: {_REPEATED.sub(' May be given several times.', flag.help)}"
    notes = [f"also --{name}" for name in second_names]
    if flag.default not in (None, "", [], False):
        notes.append(f"default: {flag.default}")
    if notes:
        text += f" ({', '.join(notes)})".replace(": ", f":{_FIXED_SPACE}")
    filled = textwrap.fill(
        text, WIDTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
    )
    return filled.replace(_FIXED_SPACE, " ")
