"""`t2t-import`: imports a model of another toolkit."""

from pathlib import Path

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.common import command
from t2t.cli.flags import command_flags, define_alias, flag_group, is_given
from t2t.cli.problem_flags import define_plugin_flags, lists_registry
from t2t.errors import UnknownNameError, UserError
from t2t.files.paths import local_path, with_addresses
from t2t.formats.importer import TENSOR2TENSOR, ImportRequest, Reads, read_by
from t2t.registry import IMPORTERS
from t2t.runs.names import request_import
from t2t.runs.startup import prepare_framework
from t2t.text.vocabulary_files import read_vocabulary

USAGE = """
Converts a model of another toolkit into a run directory for decoding with t2t-decoder or training with t2t-trainer.

    %s --from=huggingface --model_dir=opus-mt-en-de --output_dir=run
    t2t-decoder --output_dir=run --decode_from_file=test.en --decode_to_file=test.de

The folders of fairseq and Marian models, --from=fairseq and --from=marian, contain their vocabularies.

A run of Tensor2Tensor (hparams.json, model.ckpt-*) needs its vocabulary file:

    %s --from=tensor2tensor --model_dir=their_run --output_dir=run \\
      --vocab_file=vocab.translate_ende_wmt32k.32768.subwords
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, "Import") as define:
        define.string("from", TENSOR2TENSOR, f"Format of the model: {', '.join(IMPORTERS.names())}, or the name of a "
                      f"plug-in's importer.")  # fmt: skip
        define.string("model_dir", "", "Folder of the model.")
        define_alias("t2t_dir", "model_dir", flag_values=values)
        define.string("output_dir", "", "Folder of the run to make.")
        define.string("problem", "", "Problem of the new run; empty for the one in flags.txt of a Tensor2Tensor run, "
                      "and for text2text_files in other formats.")  # fmt: skip
        define_alias("problems", "problem", flag_values=values)
        define.string("vocab_file", "", "tensor2tensor: vocabulary of the run, from its --data_dir: "
                      "vocab.<problem>.<size>.subwords or the like.")  # fmt: skip
        define.string("sentencepiece_model", "", "ctranslate2, opennmt, opennmt_tf, sockeye: SentencePiece model "
                      "that splits texts into the model's tokens, or two, for inputs and targets, separated by a "
                      "comma; empty if texts are tokens separated by spaces.")  # fmt: skip
        define.integer("step", None, "tensor2tensor, opennmt_tf: step of the checkpoint; unset for the latest.")
        define.integer("target_space_id", None, "tensor2tensor: row of the target space embedding; unset for the "
                       "row of the problem's target.", lower_bound=0)  # fmt: skip
        define.string("source_language", "", "huggingface: language code of the inputs of M2M-100, NLLB and mBART, "
                      "such as en, eng_Latn or en_XX; empty for the one in the model's files.")  # fmt: skip
        define.string("target_language", "", "huggingface: language code of the outputs, like --source_language.")
    define_plugin_flags(values)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if lists_registry(values):
        return 0
    request = _request(values)
    prepare_framework()
    from t2t.runs.importing import import_run

    report = import_run(request)
    print(*report.lines(), with_addresses(f"imported into {request.output_dir}"), sep="\n")
    return 0


def _request(values: flags.FlagValues) -> ImportRequest:
    """Returns the request; raises UserError for all mistakes that can be found before TensorFlow loads."""
    if (name := values["from"].value) not in IMPORTERS:
        raise UnknownNameError(
            f"there is no such importer; ask for one of {', '.join(IMPORTERS.names())}",
            IMPORTERS.plugin_hint,
            option="from",
            value=name,
        )
    form = read_by(name)
    _check_given(values, form)
    model_dir, output_dir = local_path(values.model_dir), local_path(values.output_dir)
    if not model_dir.is_dir():
        raise UserError("no such folder", f"name {form.folder}", option="model_dir", value=model_dir)
    if values.vocab_file:
        read_vocabulary(values.vocab_file)
    if RunDir.exists(output_dir):
        raise UserError(
            "a run has begun there", "name another folder for the imported one", option="output_dir", value=output_dir
        )
    return request_import(
        format=values["from"].value,
        model_dir=model_dir,
        output_dir=output_dir,
        problem=values.problem,
        source_language=values.source_language,
        target_language=values.target_language,
        vocab_file=local_path(values.vocab_file) if values.vocab_file else None,
        sentencepiece_models=_sentencepiece_models(values.sentencepiece_model),
        step=values.step,
        target_space_id=values.target_space_id,
    )


def _sentencepiece_models(given: str) -> tuple[Path, ...]:
    """Returns the paths that the flag names; raises UserError unless they are files, one or two."""
    paths = tuple(local_path(name) for name in given.split(",") if name)
    if len(paths) > 2:
        raise UserError(
            f"{len(paths)} files are named", "name one, or one for each side", option="sentencepiece_model", value=given
        )
    if missing := [path for path in paths if not path.is_file()]:
        raise UserError(
            f"there is no file {missing[0]}", "name the model of the tokens", option="sentencepiece_model", value=given
        )
    return paths


def _check_given(values: flags.FlagValues, form: Reads) -> None:
    """Raises UserError for flags that are missing, or that only other formats read."""
    missing = [name for name in ("model_dir", *form.needs, "output_dir") if not values[name].value]
    if missing:
        used = "" if is_given(values["from"]) else f", for --from={values['from'].value}, which is used unless given"
        raise UserError(f"{', '.join('--' + name for name in missing)}: not given{used}", "see --help")
    others = {name for other in map(read_by, IMPORTERS.names()) for name in (*other.needs, *other.takes)}
    for name in sorted(others - {*form.needs, *form.takes}):
        if values[name].present:
            raise UserError(f"--from={values['from'].value} does not read it", "leave it out", option=name)
