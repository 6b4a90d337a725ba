"""`t2t-distill`: makes data on which a smaller model learns from a trained run."""

from absl import flags

from t2t.cli.common import command, command_flags
from t2t.cli.decoding_flags import define_device_flags, define_engine_flags
from t2t.cli.help import DATA, flag_group
from t2t.cli.run_flags import define_trained_flags, load_run, open_trained_run
from t2t.cli.search_flags import define_search_flags
from t2t.runs.run_checks import check_distillation, select_problem
from t2t.runs.startup import import_quietly
from t2t.specs.constants import DEFAULT_DATA_DIR

USAGE = """
Makes data to train a smaller model with: the same problem, with the outputs of a trained run, the teacher, as
targets of the training split. Vocabularies and the other splits stay as they are.

    %s --output_dir=run --data_dir=data --distilled_data_dir=distilled
    %s --output_dir=run --data_dir=data --distilled_data_dir=distilled --n_best=4
    t2t-trainer --problem=... --model=... --hparams_set=... --data_dir=distilled --output_dir=small

With --n_best=1 targets are the teacher's best outputs. With more, each is the one of so many that is nearest to the
reference, by smoothed sentence BLEU. Examples for which the teacher writes nothing, or does not come to an end, keep
their reference, and are counted. After a crash, the same command resumes it.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trained_flags(values)
    with flag_group(values, DATA) as define:
        define.string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data, whose training split is decoded.")
        define.string("distilled_data_dir", "", "Folder of distilled data to make; for the --data_dir of the trainer.")
        define.integer("n_best", 1, "Outputs of the teacher to choose from: 1 takes the best, more the one nearest to "
                       "the reference; at most the beam.", lower_bound=1)  # fmt: skip
    define_search_flags(values, decodes_only=True)
    define_engine_flags(values)
    define_device_flags(values)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    run = open_trained_run(values)
    problem = select_problem(run, values.problem)
    check_distillation(run, problem, values.data_dir, values.distilled_data_dir)
    distilling = import_quietly("t2t.runs.distilling")
    loaded = load_run(values, run.path, problem, many_rows=True)
    manifest = distilling.distill_run(loaded, values.data_dir, values.distilled_data_dir, values.n_best)
    print(f"{manifest.splits['train'].examples:,} training examples in {values.distilled_data_dir}")
    return 0
