"""Mistakes on the command line: one line on standard error, exit status 2, no files written."""

import pytest
from absl import flags

from t2t.cli import avg_all, bleu, datagen, decoder, query_server, runs, server, trainer
from t2t.cli.common import define_alias, parse
from t2t.errors import UserError

RUN = ("--problem=algorithmic_reverse_binary40", "--model=transformer", "--hparams_set=transformer_tiny")


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (
            trainer,
            ["--local_eval_frequency=0"],
            "flag --local_eval_frequency=0: 0 is not a positive integer; see --help",
        ),
        (trainer, ["--log-step-count-steps=0"], "flag --log_step_count_steps=0: 0 is not a positive integer"),
        (trainer, ["--random_seed=-1"], "flag --random_seed=-1: -1 is not an integer in the range [0, 4294967295]"),
        (trainer, ["--keep_checkpoint_max=-1"], "flag --keep_checkpoint_max=-1: -1 is not a non-negative integer"),
        (trainer, ["--train_steps=-1"], "flag --train_steps=-1: -1 is not a non-negative integer"),
        (trainer, ["--eval_steps=-1"], "flag --eval_steps=-1: -1 is not a non-negative integer"),
        (trainer, ["--worker_gpu=-1"], "flag --worker_gpu=-1: -1 is not a non-negative integer"),
        (trainer, ["--decode_beam_size=0"], "flag --decode_beam_size=0: 0 is not an integer in the range [1, 10000]"),
        (trainer, ["--train_steps=many"], "flag --train_steps=many: invalid literal"),
        (
            trainer,
            ["--schedule=sometimes"],
            "--schedule=sometimes does not exist; choose one of",
        ),
        (datagen, ["--vocab_size=-4"], "flag --vocab_size=-4: -4 is not a non-negative integer"),
        (trainer, ["--problem=a", "--problems=b"], "--problem is given twice, --problem=a and --problems=b; keep one"),
        (trainer, ["--model=a", "--model=b"], "--model is given twice, --model=a and --model=b; keep one"),
        (trainer, ["--trian_steps=4"], "flag --trian_steps does not exist; did you mean train_steps"),
        (trainer, ["somewhere"], "argument 'somewhere': this command takes flags only, --name=value"),
        (trainer, ["--model=transformer"], "--problem: not given; name one; list what there is with --registry_help"),
        (trainer, [*RUN[:1]], "--model, --hparams_set: not given; name one each"),
        (
            trainer,
            [*RUN[:2], "--hparams_set=transformer_bse"],
            "hparams 'transformer_bse' is not registered; did you mean",
        ),
        (
            trainer,
            [*RUN[::2], "--model=transfomer"],
            "model 'transfomer' is not registered; did you mean transformer, ",
        ),
        (
            trainer,
            [*RUN, "--hparams=num_head=2"],
            "hparam 'num_head' does not exist; did you mean num_heads, num_kv_heads or alignment_head?",
        ),
        (trainer, [*RUN, "--hparams=num_heads=3"], "hparam num_heads=3 does not divide the 128 channels of keys"),
        (trainer, [*RUN, "--hparams=num_heads=2", "--hparams=num_heads=4"], "num_heads is assigned twice; keep one"),
        (trainer, [*RUN, "--decode_to_file=x"], "--decode_to_file: it names where --decode_from_file writes"),
        (
            trainer,
            [*RUN, "--warm_start_other_vocabulary"],
            "--warm_start_other_vocabulary: it tells how --warm_start_from is taken; give that too",
        ),
        (datagen, ["--problem=wmt"], "problem 'wmt' is not registered"),
        (decoder, ["--sampling_top_p=1.5"], "flag --sampling_top_p=1.5: 1.5 is not a number in the range [0.0, 1.0]"),
        (decoder, ["--sampling_top_k=-1"], "flag --sampling_top_k=-1: -1 is not a non-negative integer"),
        (decoder, ["--n_best=0"], "flag --n_best=0: 0 is not a positive integer; see --help"),
        (decoder, ["--decode_window=0"], "flag --decode_window=0: 0 is not a positive integer; see --help"),
        (decoder, ["--sampling_temperature=0"], "flag --sampling_temperature=0: 0.0 is not"),
        (decoder, ["--sampling_temperature=1e39"], "1e39: 1e+39 is not a number in the range [1e-06, 1000000.0]"),
        (
            decoder,
            ["--decode_method=beem"],
            "flag --decode_method=beem: value should be one of <beam|greedy|sample|mask_predict>",
        ),
        (decoder, ["--sampling_temperature=nan"], "flag --sampling_temperature=nan: nan is not a finite number"),
        (decoder, ["--decode_alpha=inf"], "flag --decode_alpha=inf: inf is not a finite number; see --help"),
        (datagen, [f"--random_seed={2**63}"], "flag --random_seed: a number of 19 digits is too large; see --help"),
        (datagen, ["--problem=x", "--tmp_dir=~no.one/x"], "flag --tmp_dir=~no.one/x: there is no home folder"),
        (datagen, ["--problem=x", "--tmp_dir=\udce4"], "flag --tmp_dir='\\udce4': it contains bytes that are no"),
        (decoder, [f"--output_dir={'x' * 300}"], "...: the name is longer than a file's may be; shorten it"),
        (bleu, ["--smooth_value=nan"], "flag --smooth_value=nan: nan is not a finite number; see --help"),
        (
            bleu,
            ["--translation=a", "--reference=b", "--smooth_value=0.5"],
            "--smooth_value is given, which only --smooth_method=floor and add-k read; name one of them, or leave",
        ),
        (bleu, ["--smooth_value=-1"], "flag --smooth_value=-1: -1.0 is not a non-negative number"),
        (bleu, ["--chrf_char_order=0"], "flag --chrf_char_order=0: 0 is not an integer in the range [1, 100]"),
        (bleu, ["--chrf_char_order=101"], "flag --chrf_char_order=101: 101 is not an integer in the range [1, 100]"),
        (bleu, ["--chrf_word_order=-1"], "flag --chrf_word_order=-1: -1 is not an integer in the range [0, 100]"),
        (bleu, ["--chrf_beta=0"], "flag --chrf_beta=0: 0 is not an integer in the range [1, 100]"),
        (bleu, ["--chrf", "--nochrf"], "--chrf is given twice, --chrf and --nochrf; keep one"),
        (
            query_server,
            ["--timeout_secs=1e300"],
            "flag --timeout_secs=1e300: 1e+300 is not a number in the range [0.001, 1000000000.0]; see --help",
        ),
        *(
            (server, [f"--{flag}=1e300"], f"flag --{flag}=1e300: 1e+300 is not a number in the range [")
            for flag in ("batch_wait_ms", "request_seconds", "grace_seconds")
        ),
        (avg_all, ["--output_dir=a", "--model_dir=b"], "--output_dir is given twice, --output_dir=a and --model_dir=b"),
    ],
)
def test_a_mistake_is_one_line_with_status_2(command, arguments, said, tmp_path, capsys):
    folders = [f"--data_dir={tmp_path}/data"] if command in (trainer, datagen, decoder) else []
    if command is trainer:
        folders.append(f"--output_dir={tmp_path}/run")
    assert command.main(["t2t-command", *arguments, *folders]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("t2t-command: error: ")
    assert said in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("schedule", ["evaluate", "evaluate_on_train_data"])
@pytest.mark.parametrize(
    "flag",
    [
        "--dry_run", "--decode_from_file=-", "--decode_interactive", "--warm_start_from=x",
        "--keep_best_checkpoints=5",
    ],
)  # fmt: skip
def test_evaluating_refuses_what_comes_with_training(flag, schedule, tmp_path, capsys):
    assert trainer.main(["t2t-trainer", *RUN, f"--output_dir={tmp_path}/run", f"--schedule={schedule}", flag]) == 2
    assert capsys.readouterr().err == (
        f"t2t-trainer: error: {flag.partition('=')[0]}: nothing trains with --schedule={schedule}; leave one of them "
        f"out\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_output_directory_that_is_a_file(tmp_path, capsys):
    (tmp_path / "run").write_text("mine")
    assert trainer.main(["t2t-trainer", *RUN, f"--output_dir={tmp_path}/run", f"--data_dir={tmp_path}"]) == 2
    assert f"--output_dir={tmp_path}/run: that is a file; name a folder" in capsys.readouterr().err
    assert (tmp_path / "run").read_text() == "mine"


def test_a_plugin_that_ends_the_process_is_broken(tmp_path, capsys):
    (tmp_path / "__init__.py").write_text("import sys\n\nsys.exit(0)\n")
    assert datagen.main(["t2t-datagen", f"--t2t_usr_dir={tmp_path}", "--problem=x"]) == 2
    assert f"plug-in --t2t_usr_dir={tmp_path} failed to import" in capsys.readouterr().err


def test_listing_names_needs_nothing_else(capsys):
    assert trainer.main(["t2t-trainer", "--registry_help=reverse_decimal"]) == 0
    shown = capsys.readouterr().out
    assert "algorithmic_reverse_decimal40" in shown
    assert "<name>_rev, <name>_copy" in shown
    assert "transformer_base" not in shown


def test_a_plugin_that_is_no_python_is_named_with_its_line(tmp_path, capsys):
    (tmp_path / "__init__.py").write_text("from . import inner\n")
    (tmp_path / "inner.py").write_text("a = 1\nb = = 2\n")
    assert datagen.main(["t2t-datagen", f"--t2t_usr_dir={tmp_path}", "--problem=x"]) == 2
    assert f"failed to import at {tmp_path}/inner.py:2: SyntaxError" in capsys.readouterr().err


def test_a_second_name_is_known_in_the_command_that_has_it():
    """However absl describes the alias; in another command the same name may be a separate flag."""
    one, other = flags.FlagValues(), flags.FlagValues()
    for name in ("first", "second"):
        flags.DEFINE_string(name, "", "Alias for --first.", flag_values=other)
    flags.DEFINE_string("first", "", "A flag.", flag_values=one)
    define_alias("second", "first", flag_values=one)
    arguments = ["t2t-command", "--first=a", "--second=b"]
    with pytest.raises(UserError, match="--first is given twice, --first=a and --second=b; keep one"):
        parse(one, arguments, "")
    read = parse(other, arguments, "")
    assert (read["first"].value, read["second"].value) == ("a", "b")


@pytest.mark.parametrize("argument", ["-h", "--help", "-help", "--help=true", "-h=true"])
def test_the_help_is_shown_however_it_is_asked_for(argument, tmp_path, capsys):
    assert runs.main(["t2t-runs", argument, str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("Shows all runs below a folder")


def test_flags_with_one_dash_are_flags_and_values_with_a_dash_are_values():
    def read(*arguments):
        values = flags.FlagValues()
        flags.DEFINE_string("order_by", "", "One.", flag_values=values)
        flags.DEFINE_float("least", 0.0, "A number.", flag_values=values)
        flags.DEFINE_boolean("quick", True, "Other.", flag_values=values)
        flags.DEFINE_string("file", "", "Input.", flag_values=values)
        found = parse(values, ["command", *arguments], "", ("file",))
        return found.order_by, found.least, found.quick, found.file

    assert read("-order-by=-best", "-noquick", "-") == ("-best", 0.0, False, "-")
    assert read("--order_by", "-best", "-least", "-5") == ("-best", -5.0, True, "")
    with pytest.raises(UserError, match=r"^--order_by is given twice, --order_by=a and --order_by=b; keep one$"):
        read("-order_by=a", "--order_by=b")
    with pytest.raises(UserError, match=r"^flag --oder_by does not exist; did you mean order_by"):
        read("-oder_by=a")


def test_a_task_of_an_array_job_makes_shards_or_merges_them(tmp_path, capsys):
    flags = ["--problem=translate_ende_numbers", f"--data_dir={tmp_path}/data"]
    assert datagen.main(["t2t-datagen", *flags, "--shard=1/2", "--merge"]) == 2
    assert capsys.readouterr().err == (
        "t2t-datagen: error: --shard=1/2 and --merge: tasks make shards with --shard, and after the last of them one "
        "command merges these with --merge; give one of both\n"
    )
    assert datagen.main(["t2t-datagen", *flags, "--shard=2/2"]) == 2
    assert capsys.readouterr().err == (
        "t2t-datagen: error: --shard=2/2: there is no such task: 2 are counted from 0 to 1; give one of them\n"
    )
    assert not (tmp_path / "data").exists()


def test_plain_arguments_go_to_the_flags_they_stand_for_the_last_of_which_may_take_several():
    def read(*arguments):
        values = flags.FlagValues()
        flags.DEFINE_string("gold", "", "One.", flag_values=values)
        flags.DEFINE_multi_string("runs", [], "Several.", flag_values=values)
        flags.DEFINE_boolean("quick", False, "Other.", flag_values=values)
        found = parse(values, ["command", *arguments], "", ("gold", "runs"))
        return found.gold, found.runs, found.quick

    assert read() == ("", [], False)
    assert read("a") == ("a", [], False)
    assert read("a", "b", "--quick", "c") == ("a", ["b", "c"], True)
    assert read("--runs=b", "a", "--runs=c", "d") == ("a", ["b", "c", "d"], False)
    with pytest.raises(UserError, match="'a': it stands for --gold, which is given as well"):
        read("--gold=x", "a")
