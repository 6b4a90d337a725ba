"""Tensor2Tensor's flags that do nothing here, values of its `--schedule`, and its `--decode_hparams`.

A flag without effect is accepted with a warning that says what to do instead, or refused if ignoring it would change
what the command does. So is a value of --schedule that is not ours and means none of ours. The names in
--decode_hparams set the decoder's own flags.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from absl import flags

from t2t.cli.flags import DECODING, describe_flag_error, flag_group, has_flag, is_of_file
from t2t.errors import UserError, one_line
from t2t.files.lines import without_surrogates
from t2t.hparams.override import assigned_names, parse_overrides
from t2t.runs.config import TRAIN_AND_EVALUATE, TRAIN_ONLY

log = logging.getLogger("t2t")


@dataclass(frozen=True)
class UnusedFlag:
    """A flag without an effect."""

    advice: str
    """What happens or what to do instead."""
    neutral: str = ""
    """Tensor2Tensor's default, which needs neither warning nor error; `false` and `true` make the flag boolean."""
    refused: bool = False
    """Whether other values are an error."""


_ONE_HOST = "GPUs are used with --worker_gpu, several machines with --worker_hosts and --worker_index"
_NO_SERVERS = f"there are no parameter servers, every worker holds all weights; {_ONE_HOST}"
_NO_TPU = f"TPUs are not used; {_ONE_HOST}"
_NO_CLOUD = "commands run on the machine where they are typed; run t2t-trainer there"
_PLACED = "TensorFlow places operations by itself"
_TRAINER = "only t2t-trainer reads it"
_SAVED = "a checkpoint is written at every evaluation, see --local_eval_frequency"
_PROFILE = "no profile is taken; --dry_run prints memory and training time, and the log the speed"
_SEARCH = "t2t-tune searches a range, with the same flags and --study=FOLDER --hparams_range=NAME --trials=20"
_STOP = "stopping early is an hparam: --hparams=early_stopping_steps=5000,best_metric=..."
_SEVERAL_RUNS = "several machines train together with --worker_hosts and --worker_index"


def _off(advice: str, refused: bool = False) -> UnusedFlag:
    return UnusedFlag(advice, "false", refused)


RUN_FLAGS: Mapping[str, UnusedFlag] = {
    # TPUs and clouds
    "use_tpu": _off(_NO_TPU),
    "use_tpu_estimator": _off(_NO_TPU),
    "tpu_num_shards": UnusedFlag(_NO_TPU, "8"),
    "tpu_infeed_sleep_secs": UnusedFlag(_NO_TPU),
    "iterations_per_loop": UnusedFlag(_NO_TPU, "100"),
    "cloud_tpu_name": UnusedFlag(_NO_TPU),
    "cloud_tpu": _off(_NO_TPU),
    "cloud_vm_name": UnusedFlag(_NO_CLOUD),
    "cloud_delete_on_done": _off(_NO_CLOUD),
    "cloud_skip_confirmation": _off(_NO_CLOUD),
    "cloud_mlengine": _off(_NO_CLOUD),
    "cloud_mlengine_master_type": UnusedFlag(_NO_CLOUD),
    "tpu_job_name": UnusedFlag(_NO_TPU),
    "use_guarantee_const_getter": _off(_NO_TPU),
    "job_dir": UnusedFlag("the run lies in --output_dir"),
    "autotune": _off(_SEARCH, refused=True),
    "autotune_objective": UnusedFlag(_SEARCH),
    "autotune_maximize": UnusedFlag(_SEARCH, "true"),
    "autotune_max_trials": UnusedFlag(_SEARCH, "10"),
    "autotune_parallel_trials": UnusedFlag(_SEARCH, "1"),
    "hparams_range": UnusedFlag(_SEARCH, refused=True),
    # Machines and devices
    "master": UnusedFlag(_ONE_HOST),
    "worker_job": UnusedFlag(_ONE_HOST, "/job:localhost"),
    "worker_replicas": UnusedFlag(_SEVERAL_RUNS, "1", refused=True),
    "worker_id": UnusedFlag(_SEVERAL_RUNS, "0", refused=True),
    "ps_gpu": UnusedFlag(_NO_SERVERS, "0"),
    "ps_replicas": UnusedFlag(_NO_SERVERS, "0"),
    "ps_job": UnusedFlag(_NO_SERVERS, "/job:ps"),
    "sync": _off("workers always update together"),
    "std_server_protocol": UnusedFlag(_NO_SERVERS, "grpc"),
    "optionally_use_dist_strat": _off(_ONE_HOST),
    "worker_gpu": UnusedFlag("this command uses one device", "1"),
    "gpu_order": UnusedFlag("choose and order GPUs with the environment variable CUDA_VISIBLE_DEVICES"),
    "worker_gpu_memory_fraction": UnusedFlag("memory of a GPU is taken as it is needed", "0.95"),
    "daisy_chain_variables": UnusedFlag(_PLACED, "true"),
    "locally_shard_to_cpu": _off("processor cores are used with --worker_cpu"),
    "experimental_optimize_placement": _off(_PLACED),
    "enable_graph_rewriter": _off("8-bit weights are made by t2t-exporter --format=ctranslate2 --quantization=int8"),
    "disable_grappler_optimizations": _off(_PLACED),
    "inter_op_parallelism_threads": UnusedFlag(_PLACED, "0"),
    "intra_op_parallelism_threads": UnusedFlag(_PLACED, "0"),
    "xla_compile": _off("compiling is an hparam: --hparams=xla=on"),
    "xla_jit_level": UnusedFlag("compiling is an hparam: --hparams=xla=on", "-1"),
    "gpu_automatic_mixed_precision": _off("precision is an hparam: --hparams=precision=auto"),
    # Training and evaluation
    "random_seed": UnusedFlag(_TRAINER),
    "train_steps": UnusedFlag(_TRAINER),
    "eval_steps": UnusedFlag(_TRAINER),
    "schedule": UnusedFlag(_TRAINER),
    "generate_data": _off("data is generated by t2t-datagen and t2t-trainer"),
    "tmp_dir": UnusedFlag("raw files are read by t2t-datagen and t2t-trainer"),
    "local_eval_frequency": UnusedFlag(_TRAINER),
    "keep_checkpoint_max": UnusedFlag(_TRAINER),
    "warm_start_from": UnusedFlag(_TRAINER),
    "save_checkpoints_secs": UnusedFlag(_SAVED, "0"),
    "keep_checkpoint_every_n_hours": UnusedFlag("--keep_checkpoint_max and the best checkpoint are kept", "10000"),
    "eval_run_autoregressive": _off("t2t-eval always scores what the model writes by itself, and with given targets"),
    "eval_use_test_set": _off("evaluate the test split with t2t-eval --split=test", refused=True),
    "eval_print": _off("t2t-decoder --decode_split=dev writes the outputs of the split"),
    "eval_timeout_mins": UnusedFlag("one checkpoint is evaluated, none is waited for", "240"),
    "eval_throttle_seconds": UnusedFlag("evaluations come by updates, see --local_eval_frequency", "600"),
    "eval_early_stopping_steps": UnusedFlag(_STOP),
    "eval_early_stopping_metric": UnusedFlag(_STOP, "loss"),
    "eval_early_stopping_metric_delta": UnusedFlag(_STOP, "0.1"),
    "eval_early_stopping_metric_minimize": UnusedFlag(_STOP, "true"),
    # Looking inside
    "tfdbg": _off(
        "run a smaller set on one example with --dry_run, or debug your own code in Python, see docs/python.md"
    ),
    "dbgprofile": _off(_PROFILE),
    "profile": _off(_PROFILE),
    "log_device_placement": _off(_PLACED),
    "registry_help": UnusedFlag("names are listed by t2t-trainer --registry_help"),
    # Decoding and exporting
    "decode_batch_size": UnusedFlag("batches are cut by ids, see t2t-decoder --decode_batch_size"),
    "decode_from_file": UnusedFlag("files are decoded by t2t-decoder", refused=True),
    "decode_to_file": UnusedFlag("files are decoded by t2t-decoder", refused=True),
    "decode_interactive": _off("typed text is decoded by t2t-decoder", refused=True),
    "decode_reference": UnusedFlag("files are scored by t2t-decoder --decode_reference and t2t-bleu", refused=True),
    "decode_shards": UnusedFlag("part K of N is decoded by t2t-decoder --shard=K/N", "1", refused=True),
    "decode_return_beams": _off("several outputs are written by t2t-decoder --n_best", refused=True),
    "decode_problem_id": UnusedFlag("one of several problems is named by t2t-decoder --problem", "0", refused=True),
    "decode_endless": _off("t2t-decoder reads standard input until it ends", refused=True),
    "decode_save_images": _off("images are written by t2t-decoder --output_format=files", refused=True),
    "decode_use_last_position_only": _off("decoding always keeps the states of earlier positions"),
    "decode_in_memory": _off("outputs are written while a file is decoded"),
    "keep_timestamp": _off("the output has the time at which it was written"),
    "export_saved_model": _off("a run is exported by t2t-exporter"),
    "export_saved_model_api_version": UnusedFlag("there is one format; a run is exported by t2t-exporter", "1"),
    "export_as_tfhub": _off("t2t-exporter makes a SavedModel, which TensorFlow Hub also loads", refused=True),
    "as_text": UnusedFlag("a SavedModel is written in binary form", "true"),
}
"""Unused flags of t2t-trainer, t2t-decoder, t2t-eval and t2t-exporter."""

DATAGEN_FLAGS: Mapping[str, UnusedFlag] = {
    "num_shards": UnusedFlag("a problem says how many shards its data has", "0"),
    "max_cases": UnusedFlag("all examples are generated", "0", refused=True),
    "task_id": UnusedFlag("task K of N makes its shards with --shard=K/N", "-1", refused=True),
    "task_id_start": UnusedFlag("task K of N makes its shards with --shard=K/N", "-1", refused=True),
    "task_id_end": UnusedFlag("task K of N makes its shards with --shard=K/N", "-1", refused=True),
    "env_problem_max_env_steps": UnusedFlag("there are no environments"),
    "env_problem_batch_size": UnusedFlag("there are no environments"),
}
"""Unused flags of t2t-datagen."""

BLEU_FLAGS: Mapping[str, UnusedFlag] = {
    "source": UnusedFlag("the sources are not needed for a score"),
    "report_zero": UnusedFlag("only files that exist are scored", "true"),
}
"""Unused flags of t2t-bleu."""

AVERAGE_FLAGS: Mapping[str, UnusedFlag] = {
    "min_steps": UnusedFlag("the last checkpoints are averaged, or those in --checkpoints", "0"),
    "wait_minutes": UnusedFlag("the checkpoints that exist are averaged, none is waited for", "0"),
}
"""Unused flags of t2t-avg-all."""

DISTILL_FLAGS: Mapping[str, UnusedFlag] = {
    "teacher_dir": UnusedFlag("the run of the teacher is --output_dir, its outputs --distilled_data_dir", refused=True),
    "student_dir": UnusedFlag("t2t-trainer trains the student, with --distilled_data_dir as --data_dir", refused=True),
    "skip_teacher_training": _off("the teacher is a run of t2t-trainer, --output_dir"),
}
"""Unused flags of t2t-distill, which writes the outputs of a teacher."""

INSIGHT_FLAGS: Mapping[str, UnusedFlag] = {
    "configuration": UnusedFlag("runs are named by themselves: t2t-insight RUN RUN", refused=True),
    "static_path": UnusedFlag("the pages come with t2t"),
}
"""Unused flags of t2t-insights-server, which is t2t-insight here."""

TRANSLATE_ALL_FLAGS: Mapping[str, UnusedFlag] = {
    "decoder_command": UnusedFlag("the checkpoints are decoded in one process", "t2t-decoder {params}"),
    "data_dir": UnusedFlag("the run holds its vocabulary"),
}
"""Unused flags of t2t-translate-all."""

QUERY_FLAGS: Mapping[str, UnusedFlag] = {
    "problem": UnusedFlag("the server holds the problem and its vocabulary"),
    "data_dir": UnusedFlag("the server holds the problem and its vocabulary"),
    "t2t_usr_dir": UnusedFlag("the server loads plug-ins"),
    "cloud_mlengine_model_name": UnusedFlag("it asks a server of t2t-server", refused=True),
    "cloud_mlengine_model_version": UnusedFlag("it asks a server of t2t-server"),
}
"""Unused flags of t2t-query-server."""


_BOOLEAN = ("false", "true")


def define_unused_flags(values: flags.FlagValues, unused: Mapping[str, UnusedFlag]) -> None:
    """Defines flags without an effect, except those that the command already has; call it last."""
    for name, flag in unused.items():
        if name in values:
            continue
        if flag.neutral in _BOOLEAN:
            flags.DEFINE_boolean(name, flag.neutral == "true", flag.advice, flag_values=values)
        else:
            flags.DEFINE_string(name, None, flag.advice, flag_values=values)
        values[name].unused = flag


def answer_unused_flags(values: flags.FlagValues) -> None:
    """Logs a warning for each given flag without an effect, unless its value is neutral.

    Raises:
        UserError: a flag that is refused.
    """
    for name in values:
        flag = values[name]
        unused = getattr(flag, "unused", None)
        if unused is None or flag.name != name or not flag.present or _asks_nothing(flag.value, unused.neutral):
            continue
        given = f"--{name}={one_line(without_surrogates(str(flag.value)))}"
        if unused.neutral in _BOOLEAN:
            given = f"--{name}" if flag.value else f"--no{name}"
        if unused.refused:
            raise UserError(f"{given}: not supported; {unused.advice}", "leave it out")
        log.warning("%s has no effect; %s", given, unused.advice)


def _asks_nothing(value: object, neutral: str) -> bool:
    text = str(value).lower()
    try:
        return text == neutral or float(text) == float(neutral)
    except ValueError:
        return False


EVALUATE, EVALUATE_TRAIN = "evaluate", "evaluate_on_train_data"
SCHEDULES = (TRAIN_AND_EVALUATE, TRAIN_ONLY, EVALUATE, EVALUATE_TRAIN)

SYNONYMS = dict.fromkeys(("train_and_evaluate", "local_run", "train_eval_and_decode"), TRAIN_AND_EVALUATE)
"""All the same here, since evaluation during training also decodes and scores the dev split."""

_DECODER = "decode with t2t-decoder --output_dir=..., which needs nothing else"
_EVALUATOR = (
    "evaluate a checkpoint with t2t-eval --output_dir=..., or all while training with continuous_train_and_eval"
)

REFUSED = {
    "test": "see what would run with --dry_run",
    "continuous_eval": _EVALUATOR,
    "continuous_eval_on_train_data": f"{_EVALUATOR}; t2t-eval --split=train looks at training data",
    "decode": _DECODER,
    "continuous_decode": _DECODER,
    "continuous_decode_on_train_data": _DECODER,
    "continuous_decode_on_eval_data": f"{_DECODER} with --decode_split=dev",
    "continuous_decode_from_file": "decode every checkpoint with t2t-translate-all",
    "run_std_server": "there are no parameter servers; run t2t-trainer with --worker_hosts on each machine",
}
"""Unsupported values of Tensor2Tensor -> what to do instead."""


def check_schedule(values: flags.FlagValues) -> None:
    """Replaces a synonym in --schedule by our value; raises UserError for an unknown or unsupported schedule."""
    requested = values.schedule
    if requested in REFUSED:
        raise UserError("not supported", f"{REFUSED[requested]}", option="schedule", value=requested)
    values.schedule = SYNONYMS.get(requested, requested)
    if values.schedule not in SCHEDULES:
        raise UserError(
            f"--schedule={requested} does not exist",
            f"choose one of {', '.join(SCHEDULES)}, or of its synonyms {', '.join(SYNONYMS)}",
        )


DECODE_HPARAMS = {
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
        raise UserError(f"there is no {_advice(values, min(unknown))}", option="decode_hparams", value=text)
    given = parse_overrides(text, _KNOWN, _KNOWN, flag="--decode_hparams")
    for name, value in given.items():
        if name in _REFUSED and value != _REFUSED[name]:
            advice = _INSTEAD.get(name, "it has no counterpart")
            raise UserError(
                f"not supported; {advice}", "leave it out", option="decode_hparams", value=f"{name}={value}"
            )
    for name in [name for name in given if name in DECODE_HPARAMS]:
        _set(values, name, DECODE_HPARAMS[name], 0 if name == "max_input_size" and given[name] < 0 else given[name])
    if given.get("return_beams"):
        beams = given.get("beam_size", _READ["beam_size"])
        _set(values, "return_beams", "decode_beam_size", beams)
        _set(values, "return_beams", "n_best", beams)
    if given.get("shards", 1) > 1:
        _set(values, "shards", "shard", f"{given.get('shard_id', 0)}/{given['shards']}")
    elif given.get("shard_id"):
        shard, shards = given["shard_id"], given.get("shards", 1)
        raise UserError(
            f"with shards={shards} there is only 0",
            "give more shards",
            option="decode_hparams",
            value=f"shard_id={shard}",
        )
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
        raise UserError(f"{name}: this command does not read it", "decode with t2t-decoder", option="decode_hparams")
    by_file = is_of_file(values["decode_hparams"])
    if values[flag].present and by_file and not is_of_file(values[flag]):
        return
    if values[flag].present and values[flag].value != value and by_file == is_of_file(values[flag]):
        raise UserError(f"{name}={value}, but --{flag}={values[flag].value}", "keep one", option="decode_hparams")
    try:
        values[flag].parse(str(value))
    except flags.Error as error:
        raise UserError(
            f"{name}={value}: {describe_flag_error(error)}", "correct it", option="decode_hparams"
        ) from error
    values[flag].using_default_value = False
    values[flag].present = True
    values[flag].set_by_file = by_file
