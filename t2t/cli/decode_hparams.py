"""Tensor2Tensor's `--decode_hparams`: maps its names to the decoder's own flags."""

import logging
from typing import Any

from absl import flags

from t2t.cli.config import is_of_file, mark_of_file
from t2t.cli.help import DECODING, flag_group
from t2t.cli.tensor2tensor import has_flag
from t2t.errors import UserError, one_line
from t2t.hparams.override import assigned_names, parse_overrides

log = logging.getLogger("t2t")

FLAGS = {
    "beam_size": "decode_beam_size",
    "alpha": "decode_alpha",
    "extra_length": "decode_extra_length",
    "max_input_size": "max_input_length",
    "decode_to_file": "decode_to_file",
    "decode_reference": "decode_reference",
}
"""Name in --decode_hparams -> flag of the same meaning."""

_READ: dict[str, Any] = {
    "beam_size": 4, "alpha": 0.6, "extra_length": 100, "max_input_size": -1, "decode_to_file": "",
    "decode_reference": "", "return_beams": False, "shards": 1, "shard_id": 0,
}  # fmt: skip
"""Supported names, with Tensor2Tensor's default, which also gives the type."""

_WITHOUT_EFFECT: dict[str, Any] = {
    "batch_size": 0, "log_results": True, "decode_in_memory": False, "decode_timeout_mins": 240,
    "summaries_log_dir": "decode", "display_decoded_images": False, "frames_per_second": 10, "border_percent": 2,
    "max_display_outputs": 10, "max_display_decodes": 5, "shard_google_format": False, "insertion_parallel": False,
}  # fmt: skip

_REFUSED: dict[str, Any] = {
    "delimiter": "\\n", "num_samples": -1, "num_decodes": 1, "write_beam_scores": False, "save_images": False,
    "identity_output": False, "eos_penalty": 0.0, "min_length_ratio": 0.0, "block_size": 0,
    "guess_and_check_top_k": 0, "guess_and_check_epsilon": -1, "force_decode_length": False,
    "skip_eos_postprocess": False, "multiproblem_task_id": -1, "shards_start_offset": 0,
}  # fmt: skip
"""Names for which only this value is accepted."""

_KNOWN = _READ | _WITHOUT_EFFECT | _REFUSED

_INSTEAD = {
    "delimiter": "a text is a line",
    "num_samples": "all examples are decoded; give a file of fewer lines",
    "num_decodes": "decode again with another --random_seed, or ask for --n_best",
    "write_beam_scores": "scores are written with --output_format=tsv or jsonl",
    "save_images": "images are written with --output_format=files",
    "identity_output": "outputs are text",
    "eos_penalty": "see --eos_penalty",
    "min_length_ratio": "use --min_output_length",
    "multiproblem_task_id": "one of the problems of a run is named by --problem",
}
"""Refused name -> advice for the error message."""


def define_decode_hparams_flag(values: flags.FlagValues) -> None:
    """Defines --decode_hparams."""
    with flag_group(values, DECODING) as define:
        define.string("decode_hparams", "", "Settings for search and output under Tensor2Tensor's names: "
                      "beam_size=4,alpha=0.6,extra_length=50,return_beams=True.")  # fmt: skip


def apply_decode_hparams(values: flags.FlagValues) -> None:
    """Sets the decoder's flags from --decode_hparams.

    Raises:
        UserError: an unknown name, a wrong value, a name without a counterpart, or a flag given with another value.
    """
    text = values.decode_hparams
    if unknown := assigned_names(text) - set(_KNOWN):
        raise UserError(f"--decode_hparams={text}: there is no {_advice(values, min(unknown))}")
    given = parse_overrides(text, _KNOWN, _KNOWN, flag="--decode_hparams")
    for name, value in given.items():
        if name in _REFUSED and value != _REFUSED[name]:
            advice = _INSTEAD.get(name, "it has no counterpart")
            raise UserError(f"--decode_hparams={name}={value}: not supported; {advice}; leave it out")
    for name in [name for name in given if name in FLAGS]:
        _set(values, name, FLAGS[name], 0 if name == "max_input_size" and given[name] < 0 else given[name])
    if given.get("return_beams"):
        beams = given.get("beam_size", _READ["beam_size"])
        _set(values, "return_beams", "decode_beam_size", beams)
        _set(values, "return_beams", "n_best", beams)
    if given.get("shards", 1) > 1:
        _set(values, "shards", "shard", f"{given.get('shard_id', 0)}/{given['shards']}")
    elif given.get("shard_id"):
        shard, shards = given["shard_id"], given.get("shards", 1)
        raise UserError(f"--decode_hparams=shard_id={shard}: with shards={shards} there is 0 alone; give more shards")
    if useless := [name for name in given if name in _WITHOUT_EFFECT]:
        instead = "; batches are cut by --decode_batch_size ids" if "batch_size" in useless else ""
        log.warning("--decode_hparams: %s: no effect%s", ", ".join(useless), instead)


def _advice(values: flags.FlagValues, name: str) -> str:
    """Returns an unknown name and what to write instead: a flag of the command, or one of the names."""
    if flag := next((flag for flag in (f"decode_{name}", name) if has_flag(values, flag)), ""):
        return f"{name} in it; use the flag --{flag}"
    return f"{name}; names are {', '.join(_KNOWN)}"


def _set(values: flags.FlagValues, name: str, flag: str, value: Any) -> None:
    """Sets a flag as if it had been given where --decode_hparams was; the command line comes before the --config file.

    Raises:
        UserError: the command has no such flag, it was given there with another value, or the value is not allowed.
    """
    if not has_flag(values, flag):
        raise UserError(f"--decode_hparams: {name}: this command does not read it; decode with t2t-decoder")
    by_file = is_of_file(values["decode_hparams"])
    if values[flag].present and by_file and not is_of_file(values[flag]):
        return
    if values[flag].present and values[flag].value != value and by_file == is_of_file(values[flag]):
        raise UserError(f"--decode_hparams: {name}={value}, but --{flag}={values[flag].value}; keep one")
    try:
        values[flag].parse(str(value))
    except flags.Error as error:
        raise UserError(f"--decode_hparams: {name}={value}: {one_line(error)}") from error
    values[flag].using_default_value = False
    values[flag].present = True
    mark_of_file(values[flag], by_file)
