"""Chooses what the hparams leave open when a run begins: the precision, XLA, and the batch shapes for XLA.

The decisions are stored in the run's record, so that a run resumes on any machine with the batches and the precision
that it began with. After that, only XLA may be switched on or off.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from t2t.checkpoints.run_dir import RunDir
from t2t.data.reading.fixed_shapes import FixedShapes, obstacle_to_fixed_shapes
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.override import assigned_names
from t2t.runs.config import RunConfig
from t2t.runs.data import OpenData
from t2t.specs import TRAIN
from t2t.training.schedules import learning_rate

if TYPE_CHECKING:
    from t2t.backends.workers import Workers

SHAPES = 16
"""Default number of batch shapes with XLA; each is compiled before the first update.

With lengths in multiples of 8, more would not help: on Multi30k 21 % is padding with 16 shapes, and with 32.
"""
MULTIPLE = 8
"""Lengths are then multiples of this: GPU tensor cores multiply 16-bit matrices in tiles of 8 rows."""

DECIDED = ("precision", "xla", "fixed_shapes", "fixed_shapes_multiple")
"""Hparams that a run may decide by itself."""


def decide(
    hparams: HParams,
    model_class: type[Any],
    data: Sequence[OpenData],
    *,
    compiles: bool,
    bfloat16: bool,
    recorded: Mapping[str, Mapping[str, Any]] | None,
    overrides: str,
) -> HParams:
    """Returns hparams in which `precision` is chosen, `xla` is on or off, and the batch shapes for XLA are set.

    Args:
        hparams: as requested.
        model_class: of the run.
        data: of the run, its training split open.
        compiles: whether `xla=auto` turns XLA on in a new run: with GPUs, and with JAX.
        bfloat16: whether the devices multiply bfloat16, see `multiplies_bfloat16`.
        recorded: hparams in the record of the run that is resumed, see `recorded_hparams`; None for a new one.
        overrides: value of `--hparams`.

    Raises:
        UserError: `xla=on` for a model or data that XLA cannot compile.
    """
    if recorded is not None:
        hparams, data = with_recorded_decisions(hparams, recorded, overrides), ()
    hparams = decide_precision(hparams, bfloat16)
    requested = hparams.xla
    if recorded is None and requested == "auto" and not compiles:
        requested = "off"
    obstacle = "" if requested == "off" else _obstacle(hparams, model_class, data)
    if obstacle and requested == "on":
        raise UserError(f"{obstacle}", "use --hparams=xla=off", hparam="xla", value="on")
    if recorded is not None or requested == "off" or obstacle:
        return hparams.replace(xla="on" if requested == "on" else "off").freeze()
    if hparams.packed_length:  # batches have one shape
        return hparams.replace(xla="on").freeze()
    return hparams.replace(
        xla="on",
        fixed_shapes=hparams.fixed_shapes or SHAPES,
        fixed_shapes_multiple=hparams.fixed_shapes_multiple or MULTIPLE,
    ).freeze()


def decide_precision(hparams: HParams, bfloat16: bool) -> HParams:
    """Returns the hparams of a new run with `precision` chosen."""
    if hparams.precision != "auto":
        return hparams
    return hparams.replace(precision="mixed_bfloat16" if bfloat16 else "float32").freeze()


def with_recorded_decisions(hparams: HParams, recorded: Mapping[str, Mapping[str, Any]], overrides: str) -> HParams:
    """Returns the hparams requested for a run with the decisions in `recorded`, the hparams of its record.

    A decision that the user overrides is kept. Records from before these hparams existed, and of imported runs, mean
    float32 and no XLA.
    """
    values_of = {name: value for section in recorded.values() for name, value in section.items()}
    named = assigned_names(overrides)
    values = {
        name: values_of.get(name, 0)
        for name in ("fixed_shapes", "fixed_shapes_multiple")
        if not getattr(hparams, name) and name not in named
    }
    if hparams.xla == "auto":
        values["xla"] = "on" if values_of.get("xla") == "on" else "off"
    if hparams.precision == "auto":
        was = values_of.get("precision", "auto")
        values["precision"] = "float32" if was == "auto" else was
    return hparams.replace(**values)


def recorded_hparams(run: RunDir | None, workers: "Workers") -> Mapping[str, Mapping[str, Any]] | None:
    """Returns the recorded hparams of the chief's run to all workers: they may not see its folder.

    None if there is no run, or it has no checkpoint.
    """
    recorded = run.record.hparams if workers.is_chief and run and run.has_checkpoints else None
    return workers.from_chief(recorded)


def compilation_line(shapes: Sequence[FixedShapes | None], replicas: int, meanwhile: bool = False) -> str:
    """Describes what XLA is about to compile for the shapes of each problem's batches; `meanwhile`: as updates run."""
    if None in shapes:
        return "XLA compiles a program for each new shape of batches, slowly: the run began without fixed shapes"
    count = sum(len(one.every()) for one in shapes if one is not None)
    each = f", each for {replicas} replicas" if replicas > 1 else ""
    programs = "a program" if count == 1 else f"{count} programs"
    shapes_of = "for the only shape" if count == 1 else "one for each shape"
    when = "updates are slower until that is done" if meanwhile and count > 1 else "the first update comes after that"
    return f"XLA compiles {programs}{each}, {shapes_of} of batches; {when}"


def _obstacle(hparams: HParams, model_class: type[Any], data: Sequence[OpenData]) -> str:
    """Returns why XLA cannot compile a run, or an empty string."""
    if hparams.rows_per_example > 1:
        return f"objective={hparams.objective} samples outputs of any length, and each would be compiled"
    if not model_class.compiles_with_xla:
        return f"model {model_class.__name__} has loops that XLA cannot differentiate"
    obstacles = (
        obstacle_to_fixed_shapes(
            one.readers[TRAIN], one.problem.columns, hparams.max_length, one.problem.stored.preprocessors()
        )
        for one in data
    )
    return next(filter(None, obstacles), "")


def long_warmup(hparams: HParams) -> str:
    """Returns a warning where the warm-up of the learning rate takes more than half of all updates; else ""."""
    warmup, last = hparams.learning_rate_warmup_steps, hparams.train_steps
    if 2 * warmup <= max(last, 2):
        return ""
    shorter: dict[str, Any] = {"learning_rate_warmup_steps": max(1, last // 10)}
    if hparams.learning_rate_schedule in ("noam", "rsqrt_decay"):  # whose highest rate depends on the warm-up
        highest = learning_rate(hparams, warmup)
        shorter = {"learning_rate_schedule": "linear", "learning_rate": f"{highest:.2g}", **shorter}
    changes = ",".join(f"{name}={value}" for name, value in shorter.items())
    return (
        f"hparam learning_rate_warmup_steps={warmup}: the warm-up of the learning rate is longer than half of the "
        f"{last:,} updates, so that little is learnt; train for {2 * warmup:,} or more, or pass --hparams={changes}"
    )


def check_adapters(hparams: HParams, config: RunConfig) -> None:
    """Checks that a new run can train adapters, if it does.

    Raises:
        UserError: it has no base, or an option that cannot be used with adapters.
    """
    if not hparams.lora_rank:
        return
    requested = f"hparam lora_rank={hparams.lora_rank}"
    if not config.warm_start_from:
        raise UserError(
            f"{requested}: adapters change the weights of a trained model",
            "name its run or checkpoint by --warm_start_from",
        )
    conflicts = {
        f"frozen_weights={hparams.frozen_weights}": bool(hparams.frozen_weights),
        f"objective={hparams.objective}": hparams.rows_per_example > 1,
        "--warm_start_other_vocabulary": config.warm_start_other_vocabulary,
        "--warm_start_optimizer": config.warm_start_optimizer,
    }
    if found := [name for name, is_given in conflicts.items() if is_given]:
        raise UserError(
            f"{requested}: {' and '.join(found)} cannot be used with adapters, which are trained by the likelihood on "
            "all weights of another run as they are",
            "leave out one or the other",
        )
