"""Flags of decoding other than the search: devices, engines, ensembles and languages."""

from absl import flags

from t2t.backends.cluster import ALONE, find_cluster
from t2t.cli.field_flag import define_field_flag
from t2t.cli.help import DECODING, MACHINE, flag_group
from t2t.cli.tensor2tensor import has_flag
from t2t.inference.engine_choice import AVERAGES, COMPUTE_TYPES, ENGINES, TENSORFLOW, EngineChoice
from t2t.runs.config import RunConfig


def define_device_flags(values: flags.FlagValues) -> None:
    """Defines the flags of the devices to decode on."""
    with flag_group(values, MACHINE):
        define_field_flag(values, "worker_gpu", RunConfig, text="GPUs to decode on; 0 = all visible ones.")
        text = "Copies of the model on the CPU instead of GPUs; 0 = use GPUs, or one copy without any."
        define_field_flag(values, "worker_cpu", RunConfig, text=text)
        define_field_flag(values, "weight_shards", RunConfig)


def decoding_devices(values: flags.FlagValues) -> tuple[int, int, int] | None:
    """Returns the values of the flags of `define_device_flags`, None for one device."""
    several = "worker_hosts" in values and find_cluster(values.worker_hosts, values.worker_index) is not ALONE
    if not has_flag(values, "worker_gpu") or several:  # after training in several processes only the chief decodes
        return None
    return values.worker_gpu, values.worker_cpu, values.weight_shards


def define_engine_flags(values: flags.FlagValues, default: str = TENSORFLOW) -> None:
    """Defines --engine and --compute_type; `default` is an engine."""
    with flag_group(values, DECODING) as define:
        define.enum("engine", default, ENGINES, "Engine for decoding and scoring. tensorflow: the Keras model on its "
                    "backend. auto: without a GPU, CTranslate2 if it is installed, supports the model and the "
                    "search, and gives the same outputs.")  # fmt: skip
        define.enum("compute_type", COMPUTE_TYPES[0], COMPUTE_TYPES, "Number type of CTranslate2's matrix products; "
                    "all but float32 change some outputs.")  # fmt: skip


def engine_choice(values: flags.FlagValues) -> EngineChoice:
    """Returns the values of the flags of `define_engine_flags`; defaults for a command without them."""
    return EngineChoice.requested(values.engine, values.compute_type) if "engine" in values else EngineChoice()


def define_ensemble_flag(values: flags.FlagValues) -> None:
    """Defines --ensemble_average."""
    with flag_group(values, DECODING) as define:
        define.enum("ensemble_average", AVERAGES[0], AVERAGES, "What an ensemble, --output_dir=a,b,c, averages for "
                    "each token.")  # fmt: skip


def define_language_flags(values: flags.FlagValues) -> None:
    """Defines --source_language and --target_language."""
    with flag_group(values, DECODING) as define:
        define.string("source_language", "", "Language code of the inputs, for runs whose vocabulary has language "
                      "codes; empty for the problem's.")  # fmt: skip
        define.string("target_language", "", "Language code of the outputs, for such runs and those with "
                      "--language_tags, also for a direction that was not trained; empty for the problem's."
                      )  # fmt: skip


def languages_of(values: flags.FlagValues) -> tuple[str, str]:
    """Returns the arguments of `LoadedRun.with_languages`."""
    return values.source_language, values.target_language
