"""Errors that can be found before TensorFlow is loaded are reported before, and leave no files behind."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen
from t2t.hparams.transformer import transformer_tiny
from t2t.runs.names import get_problem
from t2t.text.vocabulary_files import describe_encoders
from tests.builders import edited

PROBLEM = "tiny_algo"
NAMES = (f"--problem={PROBLEM}", "--model=transformer", "--hparams_set=transformer_tiny")

RUNNER = """
import contextlib, importlib, io, json, sys

for command, arguments, said in json.load(sys.stdin):
    module = importlib.import_module(f"t2t.cli.{command}")
    with contextlib.redirect_stderr(io.StringIO()) as err:
        status = module.main([f"t2t-{command}", *arguments])
    lines = err.getvalue().splitlines()
    is_refused = status == 2 and lines[-1].startswith(f"t2t-{command}: error: ") and said in lines[-1]
    assert is_refused, (command, arguments, said, status, err.getvalue())
    loaded = sorted({"tensorflow", "keras", "torch"} & set(sys.modules))
    assert not loaded, (command, arguments, loaded)
"""


def write_run(folder, overrides=""):
    """Writes a run of tiny_algo with a dummy checkpoint."""
    problem = get_problem(PROBLEM)
    encoders = problem.build_encoders(None)
    record = RunRecord(
        problem=PROBLEM, model="transformer", hparams_set="transformer_tiny", overrides=overrides,
        hparams=transformer_tiny().override(overrides).to_dict(), spec=problem.with_encoders(encoders).spec(),
        vocabularies=describe_encoders(encoders),
    )  # fmt: skip
    run = RunDir.create(folder, record, encoders)
    CheckpointStore(run.checkpoints_folder).save(5, model={"a": np.zeros(1)}, state={"seed": 0, "data": {}})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run of tiny_algo, one that writes alignments, and their data; made without TensorFlow."""
    folder = tmp_path_factory.mktemp("early")
    assert datagen.main(["t2t-datagen", f"--problem={PROBLEM}", f"--data_dir={folder}/data"]) == 0
    write_run(folder / "run")
    write_run(folder / "aligning", "alignments=True")
    write_run(folder / "unstarted")
    shutil.rmtree(folder / "unstarted/checkpoints")
    with edited(folder / "unstarted/run.json") as record:
        record["warm_start"] = {"from": "/base", "step": 2}
    (folder / "text").write_text("0 1\n")
    return folder


def flags_of(place):
    """Returns a path that does not exist, and the flags of a run, its data, a new run and missing data."""
    gone = f"{place}/gone"
    folders = (f"--output_dir={place}/run", f"--data_dir={place}/data", f"--output_dir={place}/new/run")
    return gone, *folders, f"--data_dir={gone}"


def refused_trainings(place):
    """Yields the command, its arguments and the expected error text."""
    gone, run, data, new, no_data = flags_of(place)
    train = ("trainer", [*NAMES, new, data])
    yield "trainer", [*train[1], f"--decode_from_file={gone}"], f"{gone}: there is no such file"
    yield "trainer", [*NAMES, new, no_data], f"no data of {PROBLEM} in {gone}; make it with t2t-datagen"
    yield (
        "trainer",
        [*train[1], f"--warm_start_from={gone}"],
        f"--warm_start_from={gone}: checkpoint {gone!r}: there",
    )
    yield (
        "trainer",
        [f"--output_dir={place}/unstarted", data, f"--warm_start_from={gone}"],
        f"--warm_start_from={gone}: checkpoint {gone!r}: there",
    )
    yield "trainer", [*train[1], f"--log_step_count_steps={2**40}"], "setting log_every=1099511627776: it is at most"
    yield "trainer", [*NAMES[1:], run, data, "--problem=algorithmic_sort_binary40"], "belongs to another run: problem:"
    yield "trainer", [NAMES[0], NAMES[2], run, data, "--model=transformer_moe"], "the model reads TransformerMoeHParams"
    yield "trainer", [*NAMES, run, data, "--hparams=num_heads=2"], "hparam num_heads: asked 2, found 4"
    yield "trainer", [run, data, "--random_seed=7"], "--random_seed=7: the run in"
    yield (
        "trainer",
        [f"--output_dir={place}/unstarted", data],
        f"--output_dir={place}/unstarted: the run there began with --warm_start_from=/base and has no checkpoint",
    )
    yield "trainer", [*NAMES, new, data, "--schedule=evaluate"], f"no run in {place}/new/run"
    yield "trainer", [run, no_data, "--schedule=evaluate"], f"no data of {PROBLEM} in {gone}"
    yield (
        "trainer",
        [
            "--problem=text2text_files",
            *NAMES[1:],
            new,
            no_data,
            "--generate_data",
            f"--train_target={gone}",
            *(f"--{name}={place}/text" for name in ("train_source", "dev_source", "dev_target")),
        ],
        f"--train_target={gone}: there is no such file; check the path",
    )
    yield (
        "trainer",
        ["--problem=classify_files", "--model=transformer_encoder", "--hparams_set=transformer_encoder_tiny", new,
         no_data, "--dry_run"],
        f"no data of classify_files in {gone}, and its features are known from them alone",
    )  # fmt: skip


def refused_uses_of_a_run(place):
    """Yields the same as `refused_trainings`, for commands that read a run."""
    gone, run, data, _, no_data = flags_of(place)
    for command in ("decoder", "eval", "exporter"):
        to = [f"--export_dir={place}/exported/1"] if command == "exporter" else []
        yield command, [f"--output_dir={gone}", *to], f"no run in {gone}"
        yield command, [run, "--model=lstm_seq2seq", *to], "--model=lstm_seq2seq asked, transformer found"
        yield command, [run, "--checkpoint=best", *to], "checkpoint 'best': there is none"
    for command in ("decoder", "eval"):
        yield command, [run, "--sampling_top_k=3"], "hparam sampling_top_k=3: nothing reads it while decode_method=beam"
        yield command, [run, "--decode_beam_size=2", "--decode_method=greedy"], "hparam beam_size=2: nothing reads it"
    export = [run, f"--export_dir={place}/exported/1"]
    yield "exporter", [*export, f"--parity_file={gone}"], f"{gone}: there is no such file"
    yield "exporter", [*export, "--problem=algorithmic_sort_binary40"], "asked, tiny_algo found"
    yield "exporter", [*export, "--sampling_top_k=3"], "flag --sampling_top_k does not exist"
    yield "exporter", [run, f"--export_dir={place}/data"], f"--export_dir={place}/data: it is there already"
    distilled = f"--distilled_data_dir={place}/distilled"
    yield "distill", [f"--output_dir={gone}", data, distilled], f"no run in {gone}"
    yield "distill", [run, data], "--distilled_data_dir: not given; name the folder that the distilled data goes to"
    yield "distill", [run, no_data, distilled], f"no data of {PROBLEM} in {gone}"
    own = f"--distilled_data_dir={place}/../{place.name}/data"
    yield "distill", [run, data, own], "that is where the data lies that is distilled; name another"
    yield "distill", [run, data, distilled, "--sampling_top_k=3"], "hparam sampling_top_k=3: nothing reads it"
    for flag in ("decode_from_file", "score_file", "align_file"):
        yield "decoder", [run, f"--{flag}={gone}"], f"{gone}: there is no such file"
    scored = [f"--{name}={place}/text" for name in ("decode_from_file", "decode_reference")]
    says_alignments = "with the hparam alignments=True each line ends in word alignments; leave --alignments out"
    beam = ["--beam_options=--runner=DirectRunner", f"--decode_to_file={place}/out"]
    yield "decoder", [run, *scored, "--alignments"], says_alignments
    yield "decoder", [run, *scored, "--hparams=alignments=True"], says_alignments
    yield "decoder", [run, *scored, "--alignments", *beam], says_alignments
    yield "decoder", [f"--output_dir={place}/aligning", *scored], says_alignments
    yield "trainer", [f"--output_dir={place}/aligning", data, *scored], says_alignments
    attention = [f"--attention_to_html={place}/page.html", f"--decode_from_file={gone}"]
    yield "decoder", [run, *attention], f"{gone}: there is no such file"
    yield "decoder", [run, "--attention_to_html=/no/folder/a.html"], "there is no folder /no/folder"
    yield "decoder", [run, no_data, "--decode_split=dev"], f"no data of {PROBLEM} in {gone}"
    yield "decoder", [run, data, "--decode_split=test"], f"split 'test': {PROBLEM} has train, dev"
    yield "eval", [run, no_data], f"no data of {PROBLEM} in {gone}"
    yield "eval", [run, data, "--split=test"], f"split 'test': {PROBLEM} has train, dev"
    yield "eval", [run, f"--choice_file={gone}"], f"{gone}: there is no such file"
    saved, of_one = of_one_run(place)
    yield "decoder", [f"{run},{place}/aligning", f"--checkpoint={saved}", f"--decode_from_file={place}/text"], of_one


def of_one_run(place):
    """Returns the path of a checkpoint of one of two runs, and what is said if it is named for both."""
    saved = f"{place}/run/checkpoints/step-00000005"
    what = f"{saved} is no checkpoint of the run in {place}/aligning, and one is taken of each"
    return saved, f"--checkpoint={saved}: {what}"


def refused_services(place):
    """Yields the same as `refused_trainings`, for commands that serve runs."""
    gone, run, *_ = flags_of(place)
    (saved, of_one), other = of_one_run(place), f"--output_dir={place}/aligning"
    for command in ("server", "insight"):
        yield command, [run, other, f"--checkpoint={saved}"], of_one
        yield command, [f"--output_dir=both={place}/run,{place}/aligning", f"--checkpoint={saved}"], of_one
        asked = f"--checkpoint: --output_dir={saved} is a checkpoint itself, and others can be named like it; leave it"
        yield command, [f"--output_dir=early={saved}", other, "--checkpoint=best"], asked
        yield command, [f"--output_dir={gone}"], f"no run in {gone}"
        yield command, [run, f"--output_dir=b={gone}"], f"no run in {gone}"
        yield command, [run, "--checkpoint=77"], "checkpoint '77': there is none"
        yield command, [run, "--problem=algorithmic_sort_binary40"], f"is of {PROBLEM}; name one of these"
    yield "insight", [f"--output_dir={gone}", "--plot=a.png"], f"no run in {gone}"
    yield "insight", [run, "--plot=/no/folder/a.png"], "there is no folder /no/folder"
    yield "insight", [gone], f"{gone}: there is no such folder; name a run, or a folder with runs below it"
    yield "insight", [f"{place}/data"], f"{place}/data: there is no run below this folder"
    yield "insight", [run, f"--data_dir={gone}"], f"--data_dir={gone}: there is no such folder"


def refused_generation(place):
    """Yields the same as `refused_trainings`, for an option of training given to `t2t-datagen`."""
    texts = ("train_source", "train_target", "dev_source", "dev_target")
    asked = ["--subword_sampling=0.1", f"--data_dir={place}/gone"]
    one = ["--problem=text2text_files", *(f"--{name}={place}/gone" for name in texts), *asked]
    several = [f"--problem={PROBLEM},translate_ende_numbers", *asked]
    said = (
        "--subword_sampling=0.1: only training reads it; give it to t2t-trainer, which also generates data with "
        "--generate_data"
    )
    beam, vocabulary = "--beam_options=--runner=DirectRunner", f"--shared_vocab_file={place}/gone"
    for problems in (one, several):
        yield "datagen", problems, said
        for more in ("--shard=0/2", "--merge", beam, vocabulary):
            yield "datagen", [*problems, more], said


def refused_files(place):
    """Yields the same as `refused_trainings`, for commands that read other files and folders."""
    gone, run, _, new, no_data = flags_of(place)
    yield "bleu", [f"--translation={gone}", f"--reference={place}/text"], f"{gone}: there is no such file"
    yield "bleu", [f"--translation={place}/text", f"--reference={gone}"], f"{gone}: there is no such file"
    yield "evalb", [gone, f"{place}/text"], f"{gone}: there is no such file"
    yield "aer", [gone, f"{place}/text"], f"{gone}: there is no such file"
    yield "vocab", [f"--vocab_file={gone}"], gone
    yield "vocab", [f"--output_dir={gone}"], f"no run in {gone}"
    yield "avg_all", [f"--output_dir={gone}"], f"no run in {gone}"
    yield "avg_all", [run, "--checkpoints=77"], "77"
    theirs = [f"--t2t_dir={place}", f"--vocab_file={gone}", new]
    yield "importer", [f"--t2t_dir={gone}", *theirs[1:]], f"--model_dir={gone}: no such folder"
    yield "importer", theirs, f"{gone}"
    yield "datagen", ["--problem=translate_ende_multi30k", no_data, f"--tmp_dir={gone}"], "translate_ende_multi30k"


def test_mistakes_are_refused_without_tensorflow_and_leave_nothing(place):
    before = sorted(place.rglob("*"))
    kinds = (refused_trainings, refused_uses_of_a_run, refused_services, refused_generation, refused_files)
    cases = json.dumps([case for kind in kinds for case in kind(place)])
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=cases, capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert sorted(place.rglob("*")) == before
