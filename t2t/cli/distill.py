"""`t2t-distill`: makes training data for a smaller model from the outputs of a trained run."""

from absl import flags

from t2t.cli.common import command
from t2t.cli.decoding_flags import define_device_flags, define_engine_flags, define_search_flags
from t2t.cli.flags import DATA, command_flags, flag_group
from t2t.cli.run_flags import define_trained_flags, load_run, open_trained_run
from t2t.cli.tensor2tensor import DISTILL_FLAGS, RUN_FLAGS, define_unused_flags
from t2t.runs.distilling import check_distillation, distill_run
from t2t.runs.run_checks import select_problem
from t2t.specs import DEFAULT_DATA_DIR

USAGE = """
Makes data for training a smaller model: the same problem, but the targets of the training split are the outputs of a
trained run, the teacher. Vocabularies and the other splits are unchanged.

    %s --output_dir=run --data_dir=data --distilled_data_dir=distilled
    %s --output_dir=run --data_dir=data --distilled_data_dir=distilled --n_best=4
    t2t-trainer --problem=... --model=... --hparams_set=... --data_dir=distilled --output_dir=small

With --n_best=1 the targets are the teacher's best outputs. With a larger value, each is the one of the N best outputs
that is closest to the reference by smoothed sentence BLEU. Examples whose output is empty or unfinished keep their
reference, and are counted. After a crash, the same command resumes.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trained_flags(values)
    with flag_group(values, DATA) as define:
        define.string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data whose training split is decoded.")
        define.string("distilled_data_dir", "", "Folder to write; pass it to the trainer as --data_dir.")
        define.integer("n_best", 1, "Teacher outputs to choose from: 1 takes the best, more the one closest to the "
                       "reference; at most the beam size.", lower_bound=1)  # fmt: skip
    define_search_flags(values, decodes_only=True)
    define_engine_flags(values)
    define_device_flags(values)
    define_unused_flags(values, {**DISTILL_FLAGS, **RUN_FLAGS})


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    run = open_trained_run(values)
    problem = select_problem(run, values.problem)
    check_distillation(run, problem, values.data_dir, values.distilled_data_dir)
    loaded = load_run(values, run.path, problem, many_rows=True)
    manifest = distill_run(loaded, values.data_dir, values.distilled_data_dir, values.n_best)
    print(f"{manifest.splits['train'].examples:,} training examples in {values.distilled_data_dir}")
    return 0
