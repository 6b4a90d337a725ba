"""Errors that can be found before TensorFlow is loaded are reported before, and leave no files behind."""

import json
import shlex
import shutil
import subprocess
import sys

import pytest

from t2t.cli import datagen
from t2t.hparams.transformer import transformer_tiny
from t2t.runs.names import get_problem
from t2t.text.words import TokenEncoder
from tests import many_runs
from tests.builders import edited
from tests.raised import errors_made
from tests.readme import ROOT

PROBLEM = "tiny_algo"

RUNNER = """
import contextlib, importlib, io, json, sys

from tests.errors import check_errors

made = set()
check_errors(made)
for command, arguments, about in json.load(sys.stdin):
    module = importlib.import_module(f"t2t.cli.{command}")
    with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
        status = module.main([f"t2t-{command}", *arguments])
    *_, last = ["", *err.getvalue().splitlines()]
    if not about:
        assert (status, last) == (0, ""), (command, last)
    else:
        assert status == 2 and last.startswith(f"t2t-{command}: error: "), (command, arguments, status, last)
        missing = [word for word in about if word not in last]
        assert not missing, (command, arguments, missing, last)
    loaded = sorted({"tensorflow", "keras", "torch"} & set(sys.modules))
    assert not loaded, (command, arguments, loaded)
print(json.dumps(sorted(made)))
"""


def write_run(folder, overrides="", encoders=None):
    """Writes a run of tiny_algo with a dummy checkpoint."""
    problem = get_problem(PROBLEM)
    encoders = encoders or problem.build_encoders(None)
    own = {"overrides": overrides, "hparams": transformer_tiny().override(overrides).to_dict()}
    many_runs.create_run(folder, PROBLEM, problem.with_encoders(encoders).spec(), encoders, step=5, **own)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Runs of tiny_algo and their data, and a run without vocabularies; made without TensorFlow."""
    folder = tmp_path_factory.mktemp("early")
    assert datagen.main(["t2t-datagen", f"--problem={PROBLEM}", f"--data_dir={folder}/data"]) == 0
    write_run(folder / "run")
    write_run(folder / "aligning", "alignments=True")
    write_run(folder / "sides", encoders={"inputs": TokenEncoder("ab"), "targets": TokenEncoder("cd")})
    many_runs.write_run(folder / "bare", 1)
    write_run(folder / "unstarted")
    shutil.rmtree(folder / "unstarted/checkpoints")
    with edited(folder / "unstarted/run.json") as record:
        record["warm_start"] = {"from": "/base", "step": 2}
    (folder / "text").write_text("0 1\n")
    TokenEncoder("ab").save(folder / "words.tokens")
    return folder


TEXTS = ("train_source", "train_target", "dev_source", "dev_target")
PARTS = {
    "set": "--hparams_set=transformer_tiny",
    "names": f"--problem={PROBLEM} --model=transformer --hparams_set=transformer_tiny",
    "run": "--output_dir={place}/run",
    "aligning": "--output_dir={place}/aligning",
    "unstarted": "--output_dir={place}/unstarted",
    "data": "--data_dir={place}/data",
    "new": "--output_dir={place}/new/run",
    "no_data": "--data_dir={place}/gone",
    "gone": "{place}/gone",
    "saved": "{place}/run/checkpoints/step-00000005",
    "export": "--output_dir={place}/run --export_dir={place}/exported/1",
    "distilled": "--distilled_data_dir={place}/distilled",
    "scored": "--decode_from_file={place}/text --decode_reference={place}/text",
    "texts": " ".join(f"--{name}={{place}}/text" for name in TEXTS if name != "train_target"),
    "of_gone": "--problem=text2text_files --data_dir={place}/gone "
    + " ".join(f"--{name}={{place}}/gone" for name in TEXTS),
    "of_two": f"--problem={PROBLEM},translate_ende_numbers --data_dir={{place}}/gone",
}
"""Parts of command lines, by the names that stand for them in `REFUSED`; `place` is the folder of the tests."""

OTHER_PROBLEM = "--problem=algorithmic_sort_binary40"
REFUSED = [
    *((command, "--help", "") for command in ("avg_all", "bleu", "decoder", "eval")),
    ("vocab", "--vocab_file={place}/words.tokens --encode", ""),
    # Training
    ("trainer", "{names} {new} {data} --decode_from_file={gone}", "{gone}:"),
    ("trainer", "{names} {new} {no_data}", "tiny_algo {gone}; t2t-datagen"),
    *(("trainer", f"{run} {{data}} --warm_start_from={{gone}}", "--warm_start_from={gone}:")
      for run in ("{names} {new}", "{unstarted}")),
    ("trainer", "{names} {new} {data} --log_step_count_steps=1099511627776", "log_step_count_steps=1099511627776:"),
    ("trainer", f"--model=transformer {{set}} {{run}} {{data}} {OTHER_PROBLEM}", "{place}/run problem:"),
    ("trainer", "--problem=tiny_algo {set} {run} {data} --model=transformer_moe", "TransformerMoeHParams"),
    ("trainer", "--problem=tiny_algo {set} {new} {no_data} --model=transformer_moe --generate_data",
     "--model=transformer_moe --hparams_set=transformer_tiny TransformerMoeHParams TransformerHParams"),
    ("trainer", "{names} {run} {data} --hparams=num_heads=2", "num_heads: 2, 4"),
    ("trainer", "{run} {data} --random_seed=7", "--random_seed=7: {place}/run"),
    ("trainer", "{unstarted} {data}", "{unstarted}: --warm_start_from=/base"),
    ("trainer", "{names} {new} {data} --schedule=evaluate", "{place}/new/run"),
    ("trainer", "{run} {no_data} --schedule=evaluate", "tiny_algo {gone}"),
    ("trainer", "--problem=text2text_files --model=transformer {set} {new} {no_data} {texts} --generate_data "
     "--train_target={gone}", "--train_target={gone}:"),
    ("trainer", "--problem=classify_files --model=transformer_encoder --hparams_set=transformer_encoder_tiny {new} "
     "{no_data} --dry_run", "classify_files {gone},"),
    ("trainer", "{aligning} {data} {scored}", "alignments=True --alignments"),
    ("trainer", "--problems=tiny_algo-translate_ende_numbers --model=transformer {set} {new} {data} "
     "--decode_from_file={place}/text", "--decode_from_file: --problems=tiny_algo-translate_ende_numbers {new}"),
    # Uses of a run
    *((command, f"{flags} {to}", about)
      for command, to in (("decoder", ""), ("eval", ""), ("exporter", "--export_dir={place}/exported/1"))
      for flags, about in (
          ("--output_dir={gone}", "{gone}"), ("{run} --model=lstm_seq2seq", "--model=lstm_seq2seq transformer"),
          ("{run} --checkpoint=best", "'best':"),
      )),
    *((command, f"{{run}} {flags}", about)
      for command in ("decoder", "eval")
      for flags, about in (
          ("--sampling_top_k=3", "sampling_top_k=3: decode_method=beam"),
          ("--decode_beam_size=2 --decode_method=greedy", "beam_size=2: decode_method=greedy"),
      )),
    ("exporter", "{export} --parity_file={gone}", "{gone}:"),
    ("exporter", f"{{export}} {OTHER_PROBLEM}", f"{OTHER_PROBLEM} tiny_algo"),
    ("exporter", "{export} --sampling_top_k=3", "--sampling_top_k"),
    ("exporter", "{export} --format=tflite", "--format"),
    ("exporter", "{export} --quantization=int8", "float32"),
    ("exporter", "{export} {no_data}", "tiny_algo {gone}"),
    ("exporter", "{run} --export_dir={place}/data", "--export_dir={place}/data:"),
    ("distill", "--output_dir={gone} {data} {distilled}", "{gone}"),
    ("distill", "{run} {data}", "--distilled_data_dir:"),
    ("distill", "{run} {no_data} {distilled}", "tiny_algo {gone}"),
    ("distill", "{run} {data} --distilled_data_dir={place}/../{folder}/data", "/../{folder}/data:"),
    ("distill", "{run} {data} {distilled} --sampling_top_k=3", "sampling_top_k=3:"),
    *(("decoder", f"{{run}} --{flag}_file={{gone}}", "{gone}:") for flag in ("decode_from", "score", "align")),
    *(("decoder", f"{flags} {{scored}}", "alignments=True --alignments") for flags in (
        "{run} --alignments", "{run} --hparams=alignments=True", "{aligning}",
    )),
    ("decoder", "{run} --attention_to_html={place}/page.html --decode_from_file={gone}", "{gone}:"),
    ("decoder", "{run} --attention_to_html=/no/folder/a.html", "/no/folder;"),
    ("decoder", "{run} {no_data} --decode_split=dev", "tiny_algo {gone}"),
    ("decoder", "{run} {data} --decode_split=test", "'test': tiny_algo train, dev"),
    ("decoder", "--output_dir={place}/run,{place}/aligning --checkpoint={saved} --decode_from_file={place}/text",
     "--checkpoint={saved}: {place}/aligning,"),
    ("eval", "{run} {no_data}", "tiny_algo {gone}"),
    ("eval", "{run} {data} --split=test", "'test': tiny_algo train, dev"),
    ("eval", "{run} --choice_file={gone}", "{gone}:"),
    ("eval", "{run} {data} --t2t_usr_dir=/nowhere", "--t2t_usr_dir=/nowhere"),
    ("eval", "{run} {data} --problem=translate_ende_numbers --hparams_set=transformer_base",
     "--problem=translate_ende_numbers tiny_algo --hparams_set=transformer_base transformer_tiny"),
    *(("eval", f"{{run}} --compare_engine {engine}", f"--compare_engine {engine} --engine=ctranslate2")
      for engine in ("--engine=tensorflow", "--engine=auto")),
    ("decoder", f"{{run}} {OTHER_PROBLEM}", f"{OTHER_PROBLEM} tiny_algo"),
    ("translate_all", "--model_dir={place}/run --source={place}/text --translations_dir={place}/data --min_steps=9",
     "--min_steps=9: {place}/run"),
    # Services
    *((command, flags, about)
      for command in ("server", "insight")
      for flags, about in (
          ("{run} {aligning} --checkpoint={saved}", "--checkpoint={saved}: {place}/aligning,"),
          ("--output_dir=both={place}/run,{place}/aligning --checkpoint={saved}",
           "--checkpoint={saved}: {place}/aligning,"),
          ("--output_dir=early={saved} {aligning} --checkpoint=best", "--checkpoint: --output_dir={saved}"),
          ("--output_dir={gone}", "{gone}"), ("{run} --output_dir=b={gone}", "{gone}"),
          ("{run} --checkpoint=77", "'77':"), (f"{{run}} {OTHER_PROBLEM}", "tiny_algo;"),
          ("--output_dir=a={saved},{place}/run", "step-00000005"),
          ("{run} --ensemble_average=probabilities", "--output_dir NAME=a,b"),
          ("--output_dir={place}/run,{place}/run", "--output_dir=NAME="), ("{run} {run}", "'run'"),
      )),
    ("insight", "--output_dir={gone} --plot=a.png", "{gone}"),
    ("insight", "{run} --plot=/no/folder/a.png", "/no/folder;"),
    ("insight", "{gone}", "{gone}:"),
    ("insight", "{place}/data", "{place}/data:"),
    ("insight", "{run} --data_dir={gone}", "--data_dir={gone}:"),
    # Generation
    *(("datagen", f"{problems} --subword_sampling=0.1 {more}", "--subword_sampling=0.1: t2t-trainer, --generate_data")
      for problems in ("{of_gone}", "{of_two}")
      for more in ("", "--shard=0/2", "--merge", "--shared_vocab_file={gone}")),
    ("datagen", "--problem=translate_ende_multi30k {no_data} --tmp_dir={gone}", "translate_ende_multi30k"),
    # Files
    ("bleu", "--translation={gone} --reference={place}/text", "{gone}:"),
    ("bleu", "--translation={place}/text --reference={gone}", "{gone}:"),
    ("bleu", "--translation=/gone --reference=/gone", "/gone:"),
    ("evalb", "{gone} {place}/text", "{gone}:"),
    ("aer", "{gone} {place}/text", "{gone}:"),
    ("vocab", "--vocab_file={gone}", "{gone}"),
    ("vocab", "--output_dir={gone}", "{gone}"),
    ("vocab", "--output_dir={place}/bare", "--output_dir={place}/bare:"),
    ("vocab", "--output_dir={place}/sides --encode", "--encode: --vocab_file: {place}/sides/vocab"),
    ("avg_all", "--output_dir={gone}", "{gone}"),
    ("avg_all", "{run} --checkpoints=77", "77"),
    ("importer", "--t2t_dir={gone} --vocab_file={gone} {new}", "--model_dir={gone}:"),
    ("importer", "--t2t_dir={place} --vocab_file={gone} {new}", "{gone}"),
    ("importer", "--from=huggingface --model_dir={place} {run}", "{run}:"),
    *(("importer", f"--from=ctranslate2 --model_dir={{place}} {{new}} {models}", f"{models}: {about}")
      for models, about in (("--sentencepiece_model=a,b,c", "3"), ("--sentencepiece_model={gone}", "{gone};"))),
]  # fmt: skip
"""Commands, arguments, and what the error names."""


def test_mistakes_are_refused_without_tensorflow_and_leave_nothing(place):
    before = sorted(place.rglob("*"))
    parts = {"place": place, "folder": place.name}
    parts |= {name: part.format(place=place) for name, part in PARTS.items()}
    cases = [
        (command, shlex.split(arguments.format(**parts)), about.format(**parts).split())
        for command, arguments, about in REFUSED
    ]
    command = [sys.executable, "-c", RUNNER]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    errors_made.update(json.loads(done.stdout))
    assert sorted(place.rglob("*")) == before
