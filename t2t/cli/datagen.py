"""`t2t-datagen`: generates the data of a problem."""

from absl import flags

from t2t.cli.common import command
from t2t.cli.config import define_config_flag
from t2t.cli.decoding_flags import checked_beam_options, define_beam_flag
from t2t.cli.flags import DATA, command_flags, flag_group
from t2t.cli.problem_flags import config_of, define_problem_flags, lists_registry
from t2t.cli.tensor2tensor import DATAGEN_FLAGS, define_unused_flags
from t2t.data.generation.array_tasks import generate_part, merge, parse_task
from t2t.errors import UserError
from t2t.problems.text_problems import TextOptions
from t2t.registry import PROBLEMS
from t2t.runs.data import check_data_options, generate_all, learn_shared_vocabulary, stored_problems
from t2t.runs.names import select_names, split_variants
from t2t.specs import DATA_SEED
from t2t.specs.features import mixture_of

USAGE = """
Generates the data of a problem: learns its vocabulary, encodes its splits, and writes them with checksums.

    %s --problem=translate_ende_numbers
    %s --problem=translate_ende_multi30k --data_dir=data --tmp_dir=raw
    %s --problem=algorithmic_identity_binary40,algorithmic_reverse_*  (several)
    %s --problem=text2text_files --train_source=a.en --train_target=a.de \\
      --dev_source=b.en --dev_target=b.de
    %s --problems=translate_ende_multi30k-translate_enfr_multi30k --tmp_dir=raw \\
      --shared_vocab_file=data/shared.spm --language_tags=en,de,fr
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_problem_flags(values)
    with flag_group(values, DATA) as define:
        define.string("shared_vocab_file", "", "File of one vocabulary for all --problems; if it does not exist, it is "
                      "learned from the text of all of them.")  # fmt: skip
        define.integer("random_seed", DATA_SEED, "Random seed of everything in data generation.")
        define.string(
            "shard", "", "K/N, K from 0: makes only the shards of task K of N, e.g. in an array job with a shared "
            "--data_dir."
        )  # fmt: skip
        define.integer("num_concurrent_processes", 0, "Processes that generate; 0 for one on each core that this "
                       "command may use. The data is the same.", lower_bound=0)  # fmt: skip
        define.boolean("merge", False, "Merges the shards made by all --shard tasks into the final data.")
        define.string("exclude_problems", "", "Names or patterns of problems to exclude from --problem: a,b*.")
        define.boolean("only_list", False, "Only lists the problems that --problem names.")
    define_beam_flag(values)
    define_config_flag(values, excluded=("random_seed", *TextOptions.training_names()))
    define_unused_flags(values, DATAGEN_FLAGS)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if lists_registry(values):
        return 0
    requested = values.problem or "*" * values.only_list
    if selected := select_names(requested, values.exclude_problems):
        values.problem = mixture_of(selected)
    if values.only_list:
        for name in selected:
            PROBLEMS.entry(split_variants(name)[0])  # raises for an unknown one
        print(*selected, sep="\n")
        return 0
    config, seed, processes = config_of(values), values.random_seed, values.num_concurrent_processes or None
    check_data_options(config)
    if values.shared_vocab_file:
        config = learn_shared_vocabulary(config, values.shared_vocab_file, seed)
    if values.shard and values.merge:
        raise UserError(
            f"--shard={values.shard} and --merge: tasks make shards with --shard, and after the last of them one "
            "command merges these with --merge",
            "give one of both",
        )
    if values.beam_options and (values.shard or values.merge):
        raise UserError(
            f"--beam_options and --{'shard' if values.shard else 'merge'}: Apache Beam makes all shards and merges "
            "them",
            "give one of both",
        )
    if processes and (values.beam_options or values.merge):
        raise UserError(
            f"--num_concurrent_processes={processes} and --{'merge' if values.merge else 'beam_options'}: it is for "
            "processes of this command, and there are none",
            "leave it out",
        )
    if beam_options := checked_beam_options(values):
        from t2t.pipelines import generation

        generation.generate_all(config, seed, beam_options)
    elif values.shard:
        task, tasks = parse_task(values.shard)
        for part, problem in stored_problems(config):
            generate_part(problem, part.data_folder, part.tmp_folder, seed, task, tasks, processes)
    elif values.merge:
        for part, problem in stored_problems(config):
            merge(problem, part.data_folder, part.tmp_folder, seed)
    else:
        generate_all(config, seed, workers=processes)
    return 0
