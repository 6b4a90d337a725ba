"""`t2t-import`: imports a run of Tensor2Tensor."""

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.common import command, command_flags, define_alias
from t2t.cli.flags import define_plugin_flags, lists_registry
from t2t.cli.help import flag_group
from t2t.errors import UserError
from t2t.files.paths import local_path, with_addresses
from t2t.runs.names import get_text_problem
from t2t.runs.startup import import_quietly
from t2t.text.vocabulary_files import read_vocabulary

USAGE = """
Reads a checkpoint folder of Tensor2Tensor (hparams.json, model.ckpt-*) and its vocabulary into a run directory, which
t2t-decoder decodes and t2t-trainer goes on training.

    %s --t2t_dir=their_run --output_dir=run \\
      --vocab_file=vocab.translate_ende_wmt32k.32768.subwords
    t2t-decoder --output_dir=run --decode_from_file=test.en --decode_to_file=test.de
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, "Import") as define:
        define.string("t2t_dir", "", "Folder of the Tensor2Tensor run, its --output_dir.")
        define.string("vocab_file", "", "Vocabulary of the run, from its --data_dir: vocab.<problem>.<size>.subwords "
                      "or the like.")  # fmt: skip
        define.string("output_dir", "", "Folder of the run to make.")
        define.string("problem", "", "Problem here that the run is of; empty for the one that its flags.txt names.")
        define_alias("problems", "problem", flag_values=values)
        define.integer("step", None, "Step of the checkpoint; unset for the latest.")
        define.integer("target_space_id", None, "Row of the table of target spaces; unset for the one of the problem's "
                       "target.", lower_bound=0)  # fmt: skip
    define_plugin_flags(values)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if lists_registry(values):
        return 0
    missing = [name for name in ("t2t_dir", "vocab_file", "output_dir") if not values[name].value]
    if missing:
        raise UserError(f"{', '.join('--' + name for name in missing)}: not given; see --help")
    folders = {name: local_path(values[name].value) for name in ("t2t_dir", "vocab_file", "output_dir")}
    if not folders["t2t_dir"].is_dir():
        raise UserError(f"--t2t_dir={folders['t2t_dir']}: no such folder; name the output_dir of a Tensor2Tensor run")
    read_vocabulary(folders["vocab_file"])
    if RunDir.exists(output_dir := folders["output_dir"]):
        raise UserError(f"--output_dir={output_dir}: a run has begun there; name another folder for the imported one")
    if values.problem:
        get_text_problem(values.problem)
    importing = import_quietly("t2t.importing.tensor2tensor.run")
    more = {name: values[name].value for name in ("problem", "step", "target_space_id")}
    report = importing.import_run(importing.ImportRequest(**folders, **more))
    print(*report.lines(), with_addresses(f"imported into {output_dir}"), sep="\n")
    return 0
