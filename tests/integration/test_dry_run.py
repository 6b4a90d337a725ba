"""`t2t-trainer` before it trains: what it describes, and what it refuses before anything is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.cli import datagen, trainer
from t2t.cli import eval as eval_command
from tests.in_process import call, refuses

SET = ("--model=transformer", "--hparams_set=transformer_tiny")
UNTIMED = "--train_steps=0"
"""Updates are timed if there are any, which takes most of the time of a dry run."""


@pytest.fixture
def describe(tmp_path):
    """Returns what is printed of a run; checks that nothing is written, not even a folder."""

    def run(*flags, **named):
        printed = call(trainer, *flags, "--dry_run", f"--output_dir={tmp_path}/run", **named).err
        assert list(tmp_path.iterdir()) == []
        return printed

    return run


def test_what_a_run_would_be_is_printed_and_nothing_made(tiny_run, describe):
    said = describe(*tiny_run.train_flags, "--hparams=decode_batch_size=8", train_steps=200)
    of_all = [flag.replace("batch_size=256", "batch_size=9999") for flag in tiny_run.train_flags]
    for changed in ("decode_batch_size=8 (was ", " batch_size=256 padded tokens per side (was "):
        assert changed in said
    assert "problem text2text_files, model transformer, hparams set transformer_tiny" in said
    assert re.search(r"^parameters: [\d,]+; float32 on CPU:0$", said, re.M)
    lengths = [len(line.split()) + 1 for line in (tiny_run.raw_dir / "train.source").read_text().splitlines()]
    examples = 256 / (sum(lengths) / len(lengths))
    unit = "padded tokens per side per replica per step"
    assert re.search(rf"^batch_size=256 {unit}; .* = 256 an update, about {examples:.0f} examples$", said, re.M)
    assert re.search(rf" = 9,999 an update, about {len(lengths)} examples$", describe(*of_all, UNTIMED), re.M)
    assert "dev examples" not in said
    sizes = [len(line.split()) + 1 for line in (tiny_run.raw_dir / "dev.source").read_text().splitlines()]
    limited = [flag.replace("batch_size=256", f"batch_size={max(sizes)}") for flag in tiny_run.train_flags]
    assert re.search(rf" [1-9]\d* of {len(sizes)} dev examples, .* best ", describe(*limited, UNTIMED))
    assert re.search(r"^memory: about [\d,]+ MiB on each replica \(weights", said, re.M)
    assert re.search(r"^computation: \d\S* floating-point operations ", said, re.M)
    timed = re.search(r"^training: about \d+ (?:s|min) for 200 updates here, .* at most (\S+) of (\S+) GiB", said, re.M)
    assert 0 < float(timed[1]) <= float(timed[2])
    assert "learning_rate_warmup_steps" in said


def test_a_warm_start_alone_has_the_network_of_its_run_and_no_other(tiny_run, describe, tmp_path):
    start = f"--warm_start_from={tiny_run.output_dir}"
    said = describe(start, UNTIMED, data_dir=tiny_run.data_dir)
    assert "problem text2text_files, model transformer, hparams set transformer_tiny" in said
    (changed,) = re.findall(r"^changed hparams: (.*)$", said, re.M)
    assert "num_heads=2 (was 4)" in changed
    assert "batch_size" not in changed
    flags = [*tiny_run.train_flags, "--hparams=norm_position=pre", start, f"--output_dir={tmp_path}/run", "--dry_run"]
    refuses(trainer, f"{start}: norm_position=post norm_position=pre", *flags)


def test_a_model_of_loops_says_that_they_are_not_counted(tiny_run, describe):
    shared = [flag for flag in tiny_run.train_flags if not flag.startswith(("--model", "--hparams"))]
    said = describe(*shared, "--model=lstm_seq2seq", "--hparams_set=lstm_seq2seq_tiny", UNTIMED)
    assert re.search(r"^computation: .* loops, .* not counted", said, re.M)


HUGE = '''
from t2t.models.transformer import Transformer
from t2t.registry import register_model


@register_model
class Huge(Transformer):
    """Fits into no memory."""

    def __init__(self, *arguments, **settings):
        raise MemoryError
'''


def test_a_model_that_does_not_fit_into_memory_is_one_line(tiny_run, tmp_path):
    (tmp_path / "__init__.py").write_text(HUGE)
    own = [flag for flag in tiny_run.train_flags if not flag.startswith("--model=")]
    no_data = [SET[1], "--problem=wmt_ende_tokens_8k", f"--data_dir={tmp_path}/data"]
    for flags in (own, no_data):
        asked = [*flags, "--model=huge", f"--t2t_usr_dir={tmp_path}", "--dry_run"]
        refuses(trainer, "model memory", *asked, output_dir=tmp_path / "run", status=1)


def test_without_data_vocabularies_have_their_nominal_sizes(tmp_path, describe):
    """An encoder and a decoder layer of width 128, and one embedding table of 32,768 x 128."""
    problem = "wmt_ende_tokens_32k"
    for more in ([], ["--generate_data"]):
        flags = [*SET, f"--problem={problem}", "--hparams=num_hidden_layers=1", *more]
        said = describe(*flags, data_dir=tmp_path / "data").splitlines()
        assert said[2].startswith(f"data of {problem}: vocabulary of 32,768, ")
        assert said[2].endswith(f" {tmp_path}/data/{problem}")
        d, ff, vocabulary = 128, 512, 32_768
        attention, norm, feed_forward = 4 * d * d, 2 * d, 2 * d * ff + ff + d
        encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
        assert said[3] == f"parameters: {vocabulary * d + encoder + decoder:,}; float32 on CPU:0"
        assert said[4].startswith("100,000 updates, noam schedule, learning rate 0.0014 at most")
        assert "weights and optimizer; that of activations, " in said[5]
        assert f"t2t-datagen --problem={problem} --data_dir={tmp_path}/data" in said[5]
        assert len(said) == 6


def test_precisions_and_batch_sizes_are_described_in_their_own_words(tmp_path, describe):
    """A precision that is no type of weights; batches in the unit of the problem."""
    data = f"--data_dir={tmp_path}/data"
    said = describe(*SET, "--problem=wmt_ende_tokens_8k", data, "--hparams=precision=tensorfloat32")
    assert re.search(r"^parameters: [\d,]+; tensorfloat32 on CPU:0$", said, re.M)
    images = ["--problem=image_mnist_t10k", "--model=xception", "--hparams_set=xception_mnist"]
    said = describe(*images, data, "--hparams=batch_size=16,train_steps=5,hidden_size=16,num_hidden_layers=1")
    for changed in ("batch_size=16 examples (was 64)", "train_steps=5 (was 1000)"):
        assert changed in said


# === A problem whose features the model does not accept is refused before anything is written ===
PLUGIN = '''
from t2t.problems.text_problems import Text2Class
from t2t.registry import register_problem


@register_problem
class Mood(Text2Class):
    """Whether a text is glad."""

    vocab_kind = "byte"
    class_labels = ("bad", "good")

    def generate_samples(self, split, source):
        for number in range(20):
            yield {"inputs": f"text {number}", "targets": self.class_labels[number % 2]}
'''
MODEL = ("--model=transformer", "--hparams_set=transformer_tiny", "--worker_cpu=1")
SAID = ("Transformer", "mood", "label", "tokens")
"""What the error is about: the model, the problem, the kind of its targets, the kind that the model takes."""

FRESH = """
import sys
from t2t.cli.trainer import main
from t2t.data.generation.worker_pool import WorkerPool

fork = WorkerPool.__init__
def noted(pool, *arguments):
    fork(pool, *arguments)
    print("TensorFlow when the workers are forked:", "tensorflow" in sys.modules)
WorkerPool.__init__ = noted
sys.exit(main())
"""


@pytest.fixture(scope="module")
def usr_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moods")
    (folder / "__init__.py").write_text(PLUGIN)
    return folder


def flags_of_moods(usr_dir, tmp_path, *more):
    return [f"--t2t_usr_dir={usr_dir}", "--problem=mood", f"--data_dir={tmp_path}/data", *more]


@pytest.mark.parametrize("more", [["--dry_run"], ["--generate_data"], ["--generate_data", "--dry_run"]])
def test_the_trainer_refuses_before_it_generates_or_trains(usr_dir, tmp_path, more):
    asked = flags_of_moods(usr_dir, tmp_path, *MODEL, *more)
    printed = refuses(trainer, " ".join(SAID), *asked, output_dir=tmp_path / "run").err
    assert "examples written" not in printed
    assert not any((tmp_path / name).exists() for name in ("run", "data/mood", "data/.mood.partial"))


def test_data_that_is_there_a_variant_and_an_evaluation_are_refused_too(usr_dir, tmp_path, tiny_run):
    call(datagen, *flags_of_moods(usr_dir, tmp_path))
    for more in ([], ["--dry_run"], ["--generate_data"]):
        refuses(trainer, " ".join(SAID), *flags_of_moods(usr_dir, tmp_path, *MODEL, *more), output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    asked = [
        flag.replace("=mood", "=mood_rev") for flag in flags_of_moods(usr_dir, tmp_path, *MODEL, "--generate_data")
    ]
    refuses(trainer, "Transformer mood_rev label tokens", *asked, output_dir=tmp_path / "run")
    about = "--problem=mood text2text_files"
    refuses(eval_command, about, *tiny_run.flags, "--problem=mood", t2t_usr_dir=usr_dir)


@pytest.mark.slow  # that workers are forked before TensorFlow is imported: it must not be forked
def test_a_fresh_process_forks_its_workers_before_it_looks_at_the_model(usr_dir, tmp_path):
    command = [
        sys.executable, "-c", FRESH,
        *flags_of_moods(usr_dir, tmp_path, *MODEL, f"--output_dir={tmp_path}/run", "--generate_data"),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(t2t.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 2
    assert done.stdout == "TensorFlow when the workers are forked: False\n"
    assert all(word in done.stderr.splitlines()[-1] for word in SAID)
    assert not (tmp_path / "data").exists()


# === XLA compiles one program per shape of batches, all of them before the first update ===
@pytest.mark.exhaustive  # that XLA compiles no program in the middle of a training
def test_as_many_programs_are_compiled_as_were_announced(tiny_run, tmp_path):
    """Counted by the files that XLA dumps for each compiled program."""
    programs = tmp_path / "programs"
    hparams = next(flag for flag in tiny_run.train_flags if flag.startswith("--hparams="))
    hparams = hparams.replace("layer_prepostprocess_dropout=0.0", "layer_prepostprocess_dropout=0.1")
    flags = [flag for flag in tiny_run.train_flags if not flag.startswith("--hparams=")]
    flags += [f"{hparams},xla=on,fixed_shapes=3"]
    code = "import sys; from t2t.cli.trainer import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *flags, f"--output_dir={tmp_path / 'run'}", "--train_steps=40"],
        capture_output=True, text=True, check=True,
        env=os.environ | {"XLA_FLAGS": f"--xla_dump_to={programs} --xla_dump_hlo_as_text"},
    )  # fmt: skip
    announced = re.search(r"XLA compiles (\d+) programs, one for each shape", done.stderr)
    compiled = list(programs.glob("*local_gradient*.before_optimizations.txt"))
    assert 2 <= int(announced[1]) <= 3
    assert len(compiled) == int(announced[1])
    assert RunDir.open(tmp_path / "run").record.hparams["train"]["xla"] == "on"


def test_a_model_with_loops_is_refused_before_anything_is_written(tiny_run, tmp_path):
    flags = [flag for flag in tiny_run.train_flags if not flag.startswith(("--hparams", "--model"))]
    model = ["--model=lstm_seq2seq", "--hparams_set=lstm_seq2seq_tiny", "--hparams=xla=on"]
    refuses(trainer, "xla=on: LstmSeq2seq --hparams=xla=off", *flags, *model, output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
