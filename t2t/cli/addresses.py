"""Flags that accept an object store address, such as `s3://bucket/data`, as well as a local path."""

from collections.abc import Iterator

from absl import flags

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.lines import without_surrogates
from t2t.files.paths import address_of, check_address, check_local, join_names, local_path, named_files, names_zoo
from t2t.files.remote.mirror import fetch

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


def check_addresses(values: flags.FlagValues) -> None:
    """Raises UserError for a name that is not UTF-8, a malformed address, or an address where a path is needed."""
    sharing = _sharing(values)
    for name, value in _texts(values):
        if without_surrogates(value) != value:
            raise UserError(f"flag --{name}={value!r}: it contains bytes that are no UTF-8; rename the file or folder")
        if names_zoo(value) and name not in _ZOO:
            raise UserError(f"--{name}={value}: only runs are in a zoo; name a path of another folder")
        if name in (*_FOLDERS, *_CORPORA, *_INPUT_FILES, *_OUTPUT_FILES):
            for part in value.split(","):  # several runs
                check_address(part.strip(), name)
                if sharing and name in _SHARED and address_of(local_path(part.strip())):
                    raise UserError(
                        f"{sharing}: --{name}={part.strip()} is in an object store, and what shares the work shares a "
                        f"folder; name one that all of them see, on a file system with locks"
                    )
        else:
            check_local(value, name)


def _sharing(values: flags.FlagValues) -> str:
    """Returns the given flag that divides work among processes through a local folder, or an empty string.

    Data generation with --shard may also use an object store; decoding with --shard and Apache Beam may not.
    """
    names = ["beam_options"] if "beam_options" in values else []
    names += ["shard", "merge"] if "decode_to_file" in values and "shard" in values else []
    return next((f"--{name}" for name in names if values[name].value), "")


def mirror_files(values: flags.FlagValues) -> None:
    """Downloads input files from object stores; replaces addresses of files by local mirrors, and `~` by its folder.

    Folders and the files of problems are expanded where they are used.

    Raises:
        MachineError: the store refuses or does not answer.
    """
    for name, value in _texts(values):
        if name not in (*_INPUT_FILES, *_OUTPUT_FILES, *_LOCAL_FILES):
            continue
        paths = named_files(value) if name in _LISTS else [local_path(value)]
        if any(map(address_of, paths)):
            if name in _INPUT_FILES:
                with os_errors_as_machine_errors(f"cannot read {value}"):
                    fetch(*paths)
            values[name].value = join_names(paths)
        elif name != _EXPANDED_LATER and (value.startswith("~") or (name in _LISTS and ",~" in value)):
            values[name].value = join_names(paths)


def _texts(values: flags.FlagValues) -> Iterator[tuple[str, str]]:
    """Yields (name, value) of each flag that may hold a path and is not empty; aliases are skipped."""
    for name in values:
        flag = values[name]
        is_path = name not in (*_WEB, *TEXTS) and not hasattr(flag, "unused") and not hasattr(flag, "alias_of")
        if isinstance(flag.value, str) and flag.value and is_path:
            yield name, flag.value
