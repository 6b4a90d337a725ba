"""`t2t-trainer --dry_run`: describes a run without writing anything."""

import re

import pytest

from t2t.cli import trainer
from t2t.registry import MODELS
from tests.in_process import call, refuses
from tests.registrations import forgotten

SET = ("--model=transformer", "--hparams_set=transformer_tiny")


@pytest.fixture
def describe(tmp_path):
    """Returns what is printed of a run; checks that nothing is written, not even a folder."""

    def run(*flags, **named):
        printed = call(trainer, *flags, "--dry_run", f"--output_dir={tmp_path}/run", **named).err
        assert list(tmp_path.iterdir()) == []
        return printed

    return run


def test_what_a_run_would_be_is_printed_and_nothing_made(tiny_run, describe):
    said = describe(*tiny_run.train_flags, train_steps=200)
    assert "problem text2text_files, model transformer, hparams set transformer_tiny" in said
    assert re.search(r"^parameters: [\d,]+; float32 on CPU:0$", said, re.M)
    lengths = [len(line.split()) + 1 for line in (tiny_run.raw_dir / "train.source").read_text().splitlines()]
    examples = 256 / (sum(lengths) / len(lengths))
    assert re.search(rf"^batch_size=256 padded .* = 256 an update, about {examples:.0f} example\(s\)$", said, re.M)
    assert re.search(r"^memory: about [\d,]+ MiB on each replica \(weights", said, re.M)
    (all_updates, one) = re.search(r"^training: about (\S+) .* for 200 updates, (\S+) each$", said, re.M).groups()
    assert float(all_updates) / float(one) == pytest.approx(200, rel=0.05)


def test_a_warm_start_alone_has_the_network_of_its_run_and_no_other(tiny_run, describe, tmp_path):
    start = f"--warm_start_from={tiny_run.output_dir}"
    said = describe(start, data_dir=tiny_run.data_dir)
    assert "problem text2text_files, model transformer, hparams set transformer_tiny" in said
    (changed,) = re.findall(r"^changed hparams: (.*)$", said, re.M)
    assert "num_heads=2 (was 4)" in changed
    assert "batch_size" not in changed
    flags = [*tiny_run.train_flags, "--hparams=norm_position=pre", start, f"--output_dir={tmp_path}/run", "--dry_run"]
    refuses(trainer, f"{start}: norm_position=post norm_position=pre", *flags)


def test_a_model_of_loops_says_that_they_are_not_counted(tiny_run, describe):
    shared = [flag for flag in tiny_run.train_flags if not flag.startswith(("--model", "--hparams"))]
    said = describe(*shared, "--model=lstm_seq2seq", "--hparams_set=lstm_seq2seq_tiny")
    assert re.search(r"^training: about .* loops, .* not counted", said, re.M)


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
    with forgotten(MODELS):
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


def test_precisions_and_batch_sizes_are_described_in_their_own_words(tiny_run, tmp_path, describe):
    """A precision that is no type of weights; batches in the unit of the problem."""
    data = f"--data_dir={tmp_path}/data"
    said = describe(*SET, "--problem=wmt_ende_tokens_8k", data, "--hparams=precision=tensorfloat32")
    assert re.search(r"^parameters: [\d,]+; tensorfloat32 on CPU:0$", said, re.M)
    images = ["--problem=image_mnist_t10k", "--model=xception", "--hparams_set=xception_mnist"]
    said = describe(*images, data, "--hparams=batch_size=16,train_steps=5")
    assert "changed hparams: batch_size=16 examples (was 64), train_steps=5 (was 1000)\n" in said
    said = describe(*tiny_run.train_flags, "--hparams=decode_batch_size=8")
    assert "decode_batch_size=8 (was " in said
    assert " batch_size=256 padded tokens per side (was " in said
    assert "batch_size=256 padded tokens per side per replica per step" in said
