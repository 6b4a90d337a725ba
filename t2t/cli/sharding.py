"""The decoder's flags for dividing a file among machines: decoding one shard, and merging all of them."""

import shlex

from absl import flags

from t2t.cli.help import ACTION, flag_group
from t2t.errors import UserError
from t2t.inference.engine import AUTO, TENSORFLOW
from t2t.inference.files.shards import check_sharded, parse_shard

FILE_MODES = ("decode_from_file", "score_file", "align_file")
"""Flags whose file is read by windows, and can be divided into shards."""


def define_shard_flags(values: flags.FlagValues) -> None:
    """Defines --shard and --merge."""
    with flag_group(values, ACTION) as define:
        define.string("shard", "", "K/N, K from 0: decodes only shard K of N, into a part next to "
                      "<decode_to_file>; run the other shards in other processes or machines.")  # fmt: skip
        define.boolean("merge", False, "Joins the parts of all shards into <decode_to_file>, without a model; give "
                       "the same other flags as for the shards.")  # fmt: skip


def check_shard_flags(values: flags.FlagValues) -> None:
    """Raises UserError for wrong uses of --shard, --merge and --beam_options; call after checking the modes.

    All processes must have one engine, and that of --engine=auto depends on what is installed where each of them runs.
    Where none is named, it is TensorFlow.
    """
    asked = [f"--{name}" for name in ("shard", "merge", "beam_options") if values[name].value]
    if not asked:
        return
    if len(asked) > 1:
        raise UserError(
            f"{' and '.join(asked)} are given; --shard does one shard, --merge joins those that are done, and "
            f"--beam_options does all and joins them: keep one"
        )
    source = "".join(values[name].value for name in FILE_MODES)
    if not source or values.attention_to_html:
        given = "--attention_to_html makes one page" if values.attention_to_html else "only files are divided"
        raise UserError(
            f"{asked[0]}: {given}; give {asked[0]} with --decode_from_file, --score_file or --align_file alone"
        )
    if not values.decode_to_file:
        raise UserError(f"{asked[0]}: parts go next to the output; name that with --decode_to_file")
    if values.engine == AUTO and not values.merge:
        if values["engine"].present:
            raise UserError(
                f"{asked[0]}: with --engine=auto each process chooses its engine, and the parts may be of several; "
                f"name one for all, --engine=tensorflow or --engine=ctranslate2"
            )
        values.engine = TENSORFLOW
    if values.shard:
        parse_shard(values.shard)
    check_sharded(source, values.decode_to_file)


def command_of_shard(values: flags.FlagValues, shard: str) -> str:
    """Returns the command that decodes a shard, such as `3/100`, with the flags that were given with --merge."""
    given = [
        word
        for name in values
        if (flag := values[name]).present and flag.name == name and not hasattr(flag, "alias_of") and name != "merge"
        for word in flag.serialize().split("\n")
    ]
    return shlex.join(["t2t-decoder", *given, f"--shard={shard}"])
