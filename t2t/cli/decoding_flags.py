"""Flags of what decodes: devices, engines, ensembles and languages."""

from absl import flags

from t2t.cli.field_flag import define_field_flag
from t2t.cli.help import DECODING, MACHINE, flag_group
from t2t.cli.tensor2tensor import has_flag
from t2t.inference.engine_choice import AVERAGES, COMPUTE_TYPES, ENGINES, TENSORFLOW, EngineChoice
from t2t.runs.settings import Settings
from t2t.training.cluster import ALONE, find_cluster


def define_device_flags(values: flags.FlagValues) -> None:
    """The devices that decode."""
    with flag_group(values, MACHINE):
        define_field_flag(values, "worker_gpu", Settings, text="GPUs to decode on; 0 = all that are visible.")
        text = "Copies of the model on the processor instead of GPUs; 0 = use GPUs, or one copy."
        define_field_flag(values, "worker_cpu", Settings, text=text)
        define_field_flag(values, "weight_shards", Settings)


def decoding_devices(values: flags.FlagValues) -> tuple[int, int, int] | None:
    """Returns the values of the flags of `define_device_flags`, None for one device."""
    several = "worker_hosts" in values and find_cluster(values.worker_hosts, values.worker_index) is not ALONE
    if not has_flag(values, "worker_gpu") or several:  # of several processes that trained, the chief decodes
        return None
    return values.worker_gpu, values.worker_cpu, values.weight_shards


def define_engine_flags(values: flags.FlagValues) -> None:
    """What decodes, and how it computes."""
    with flag_group(values, DECODING) as define:
        define.enum("engine", TENSORFLOW, ENGINES, "What decodes and scores. tensorflow: the model itself, on the "
                    "backend of Keras. auto: CTranslate2, faster on processors, where it is installed, holds the "
                    "model and answers as it does.")  # fmt: skip
        define.enum("compute_type", COMPUTE_TYPES[0], COMPUTE_TYPES, "In which numbers CTranslate2 multiplies; "
                    "all but float32 change some outputs.")  # fmt: skip


def engine_choice(values: flags.FlagValues) -> EngineChoice:
    """Returns the values of the flags of `define_engine_flags`, where a command has them."""
    return EngineChoice(values.engine, values.compute_type) if "engine" in values else EngineChoice()


def define_ensemble_flag(values: flags.FlagValues) -> None:
    """How several runs decode as one."""
    with flag_group(values, DECODING) as define:
        define.enum("ensemble_average", AVERAGES[0], AVERAGES, "What is averaged of several runs in --output_dir, "
                    "a,b,c, for each token.")  # fmt: skip


def define_language_flags(values: flags.FlagValues) -> None:
    """Which languages a run reads and writes."""
    with flag_group(values, DECODING) as define:
        define.string("source_language", "", "Code of the language of inputs, for runs whose vocabulary has codes of "
                      "languages; empty for that of the problem.")  # fmt: skip
        define.string("target_language", "", "Code of the language to write, for these runs and those with "
                      "--language_tags: also for a direction that was not trained; empty for that of the problem."
                      )  # fmt: skip


def languages_of(values: flags.FlagValues) -> tuple[str, str]:
    """Returns the arguments of `LoadedRun.with_languages`."""
    return values.source_language, values.target_language
