"""Mistakes on the command line: one line on standard error, exit status 2, no files written."""

import shlex

import pytest
from absl import flags

from t2t.cli import (
    avg_all,
    bleu,
    datagen,
    decoder,
    eval,
    exporter,
    importer,
    make_tf_configs,
    query_server,
    runs,
    server,
    trainer,
    translate_all,
    tune,
)
from t2t.cli.common import parse
from t2t.cli.flags import define_alias
from tests.errors import refused
from tests.in_process import check_refused

MODEL, SET = "--model=transformer", "--hparams_set=transformer_tiny"
PROBLEM = "--problem=algorithmic_reverse_binary40"
RUN = f"{PROBLEM} {MODEL} {SET}"
BEAM = "--beam_options=--runner=DirectRunner"
FILE = "--decode_from_file=in"
BLEU = "--translations_dir=. --reference=in"
REFERENCE = "--decode_reference=none"

WRONG_VALUES = {
    trainer: [
        "--local_eval_frequency=0", "--random_seed=-1", "--keep_checkpoint_max=-1", "--train_steps=-1",
        "--eval_steps=-1", "--worker_gpu=-1", "--decode_beam_size=0", "--train_steps=many", "--schedule=sometimes",
    ],
    datagen: ["--vocab_size=-4", "--tmp_dir=~no.one/x"],
    decoder: [
        "--sampling_top_p=1.5", "--sampling_top_k=-1", "--n_best=0", "--decode_window=0", "--sampling_temperature=0",
        "--sampling_temperature=1e39", "--decode_method=beem", "--sampling_temperature=nan", "--decode_alpha=inf",
        "--output_format=xml", "--decode_split=train",
    ],
    eval: ["--split=devel", "--eval_steps=-1", "--decode_beam_size=0"],
    bleu: [
        "--smooth_value=nan", "--smooth_value=-1", "--chrf_char_order=0", "--chrf_char_order=101",
        "--chrf_word_order=-1", "--chrf_beta=0",
    ],
    query_server: [
        "--timeout_secs=1e300",
        *(f"--server={one}" for one in ("127.0.0.1:abc", "127.0.0.1:0", "127.0.0.1:99999", "[::1:8501", "http://",
                                        "http://:80", "ftp://a", ":80")),
    ],
    server: [f"--{name}=1e300" for name in ("batch_wait_ms", "request_seconds", "grace_seconds")],
    make_tf_configs: ["--masters=a", "--masters=slurm"],
}  # fmt: skip
"""Flags that a command refuses with their values."""

MISTAKES = [
    (trainer, "--log-step-count-steps=0", "--log_step_count_steps=0"),
    (trainer, "--problem=a --problems=b", "--problem=a --problems=b"),
    (trainer, "--model=a --model=b", "--model=a --model=b"),
    (trainer, "--trian_steps=4", "--trian_steps train_steps"),
    (trainer, "--hidden_size=3", "--hidden_size --hparams=hidden_size=...?"),
    (trainer, "--lr=3 --hparams_set=lstm_attention", "--lr --hparams=learning_rate=...?"),
    (trainer, "--dropout=0.3 --hparams_set=lstm_attention", "--dropout --hparams=dropout=...?"),
    (trainer, "--gpu=1", "--gpu worker_gpu?"),
    (trainer, f"{RUN} --hparams=dropout=0.3", "'dropout' layer_prepostprocess_dropout,"),
    (trainer, f"{RUN} --hparams=patience=3", "'patience' early_stopping_steps?"),
    (trainer, "somewhere", "'somewhere'"),
    (trainer, MODEL, "--problem, --hparams_set: --registry_help"),
    (trainer, f"{PROBLEM} --warm_start_from=gone", "--model, --hparams_set: --warm_start_from=gone"),
    (trainer, PROBLEM, "--model, --hparams_set:"),
    (trainer, f"{PROBLEM} {MODEL} --hparams_set=transformer_bse", "'transformer_bse' transformer_base"),
    (trainer, f"{PROBLEM} --model=transfomer {SET}", "'transfomer' transformer,"),
    (trainer, f"{RUN} --hparams=num_head=2", "'num_head' num_heads, num_kv_heads num_decoder_heads?"),
    (trainer, f"{RUN} --hparams=num_heads=3", "num_heads=3 128"),
    (trainer, f"{RUN} --hparams=num_heads=2 --hparams=num_heads=4", "num_heads"),
    (trainer, f"{RUN} --decode_to_file=x", "--decode_to_file: --decode_from_file"),
    (trainer, f"{RUN} --warm_start_other_vocabulary", "--warm_start_other_vocabulary: --warm_start_from"),
    *(
        (trainer, f"{RUN} --schedule={schedule} {flag}", f"{flag.partition('=')[0]}: --schedule={schedule}")
        for schedule in ("evaluate", "evaluate_on_train_data")
        for flag in ("--dry_run", "--decode_from_file=-", "--decode_interactive", "--warm_start_from=x",
                     "--keep_best_checkpoints=5")
    ),
    (datagen, "", "--problem: --registry_help"),
    (datagen, "--problem=wmt", "'wmt'"),
    (datagen, f"--random_seed={2**63}", "--random_seed: 19"),
    (datagen, "--problem=x --tmp_dir=\udce4", r"--tmp_dir='\udce4':"),
    (datagen, "--problem=translate_ende_numbers --shard=1/2 --merge", "--shard=1/2 --merge:"),
    (datagen, "--problem=translate_ende_numbers --shard=2/2", "--shard=2/2:"),
    *((datagen, f"{PROBLEM} {BEAM} {flag}", f"--beam_options {flag.partition('=')[0]}")
      for flag in ("--shard=0/2", "--merge")),
    (datagen, f"{PROBLEM} --beam_options=--direct_num_worker=2", "--beam_options='--direct_num_worker=2'"),
    *((datagen, f"--problem=translate_ende_numbers --num_concurrent_processes=3 {more}",
       f"--num_concurrent_processes=3 {more.partition('=')[0]}") for more in (BEAM, "--merge")),
    *((datagen, f"--problem={problems} --subword_sampling=0.1 {BEAM}", "--subword_sampling=0.1: --generate_data")
      for problems in ("translate_ende_numbers", "tiny_algo,translate_ende_numbers")),
    *((datagen, f"--only_list --problem=algorithmic_reverse_binary40_copy,{name}", "'zzz'")
      for name in ("zzz", "zzz_rev")),
    (decoder, f"--output_dir={'x' * 300}", "xxx...:"),
    (decoder, "", "--output_dir: t2t-trainer"),
    (eval, "", "--output_dir:"),
    (avg_all, "", "--output_dir:"),
    (avg_all, "--model_dir=/nowhere", "/nowhere;"),
    (decoder, "--decode_from_file=- --decode_to_file=/gone/out", "/gone/out: /gone;"),
    (decoder, "--decode_split=dev --decode_to_file=/gone/out", "/gone/out: /gone;"),
    (decoder, "--decode_from_file=- --decode_split=dev", "--decode_from_file --decode_split"),
    (decoder, "--decode_to_file=out", "--decode_to_file: --decode_from_file, --score_file, --align_file"),
    (decoder, "--decode_interactive --decode_to_file=out", "--decode_to_file:"),
    (decoder, "--unknown_dictionary=/gone", "/gone:"),
    (decoder, "--score_file=- --alignments --alignment_layer=2", "--alignments, --alignment_layer: --score_file"),
    (decoder, "--align_file=- --alignments --n_best=2", "--n_best, --alignments: --align_file"),
    *((decoder, f"--attention_to_html=page {flag}", f"{flag.partition('=')[0]} --attention_to_html")
      for flag in ("--replace_unknown", "--score_file=x", "--n_best=2", "--decode_to_file=x")),
    (decoder, "--score_file=in --n_best=2", "--n_best --score_file"),
    (decoder, "--score_file=in --decode_beam_size=2 --decode_alpha=1", "--decode_beam_size, --decode_alpha"),
    (decoder, "--score_file=in --decode_from_file=in", "--decode_from_file --score_file"),
    (decoder, "--output_format=files", "--output_format=files: --decode_from_file --decode_split;"),
    (decoder, f"{FILE} --output_format=files --alignments", "--alignments: --output_format=files"),
    *((decoder, f"--decode_split=dev --{name}=in", f"--{name}: --decode_from_file")
      for name in ("target_prefix_file", "constraints_file")),
    (decoder, "--decode_split=dev --decode_window=9", "--decode_window:"),
    (decoder, "--decode_window=9", "--decode_window:"),
    (decoder, "--token_scores", "--token_scores: --output_format=text --output_format=jsonl"),
    (decoder, "--decode_beam=4", "--decode_beam decode_beam_size"),
    (decoder, "--max_new_tokens=4", "--max_new_tokens --hparams=extra_length=...?"),
    (avg_all, "--n=2 --checkpoints=1,2", "--n --checkpoints"),
    (decoder, REFERENCE, "--decode_reference: --decode_from_file"),
    (decoder, f"{REFERENCE} --decode_from_file=-", "--decode_reference: --decode_from_file"),
    (decoder, f"{REFERENCE} {FILE} --decode_to_file=-", "--decode_reference: --decode_from_file"),
    (decoder, f"{REFERENCE} {FILE} --n_best=2", "--decode_reference: --n_best"),
    (decoder, f"{REFERENCE} {FILE} --output_format=jsonl", "--decode_reference: --output_format"),
    (decoder, f"{REFERENCE} {FILE} --decode_to_file=b --merge", "--decode_reference: --merge"),
    (decoder, f"{REFERENCE} {FILE}", "none:"),
    (decoder, f"{FILE} --decode_to_file=out --shard=0/2 --merge", "--shard --merge --beam_options"),
    (decoder, f"{FILE} --decode_to_file=out {BEAM} --merge", "--merge --beam_options"),
    *((decoder, f"{FILE} --decode_to_file= {flag}", f"{flag.partition('=')[0]}: --decode_to_file")
      for flag in (BEAM, "--shard=0/2", "--merge")),
    *((decoder, f"{FILE} --decode_to_file=out {flag} --engine=auto", f"{flag.partition('=')[0]}: --engine=auto")
      for flag in (BEAM, "--shard=0/2")),
    (decoder, f"{FILE} --decode_to_file=out --beam_options=--direct_num_worker=2", "--direct_num_worker;"),
    (decoder, f"{FILE} --decode_to_file=out --shard=2", "'2': 0/100"),
    (decoder, f"{FILE} --decode_to_file=out --shard=2/2", "2/2: 0/N N-1/N, 99,999; 0/100"),
    (decoder, f"{FILE} --decode_to_file=- --shard=0/2", "-: parts"),
    (decoder, f"{FILE} --decode_to_file=out --merge", "out: --shard=0/100"),
    (decoder, "--decode_from_file=- --decode_to_file=out --shard=0/2", "input: shards"),
    (decoder, "--decode_split=dev --decode_to_file=out --shard=0/2", "--shard: --decode_from_file, --score_file"),
    (decoder, f"{FILE} --attention_to_html=page --decode_to_file=out --shard=0/2",
     "--decode_to_file: --attention_to_html"),
    (decoder, f"{FILE} --attention_to_html=page --shard=0/2", "--shard: --attention_to_html"),
    (trainer, "--hparams_range=transformer_base_range", "--hparams_range=transformer_base_range: t2t-tune"),
    (trainer, "--autotune", "--autotune: t2t-tune"),
    (trainer, "--worker_replicas=2", "--worker_replicas=2: --worker_hosts"),
    (trainer, "--eval_use_test_set", "--eval_use_test_set: --split=test"),
    (decoder, "--decode_shards=4", "--decode_shards=4: --shard=K/N"),
    (exporter, "--export_as_tfhub", "--export_as_tfhub: t2t-exporter"),
    (datagen, "--max_cases=5", "--max_cases=5:"),
    (datagen, "--task_id=3", "--task_id=3: --shard=K/N"),
    *((trainer, f"--decode_hparams={text}", about) for text, about in (
        ("coverage_penalty=0.2", "coverage_penalty; beam_size,"), ("return_beams=True", "return_beams: t2t-decoder"),
    )),
    *((decoder, f"--decode_hparams={text}", about) for text, about in (
        ("beam=4", "--decode_hparams=beam=4: beam; beam_size, alpha, extra_length,"),
        ("coverage_penalty=0.2", "coverage_penalty --decode_coverage_penalty"),
        ("min_output_length=2", "min_output_length --min_output_length"),
        ("beam_size=four", "beam_size four"),
        ("beam_size=0", "--decode_hparams: beam_size=0: --decode_beam_size=0:"),
        ("'beam_size=4,;'", "--decode_hparams='beam_size=4,;': ';'"),
        ("beam_size=4,beam_size=5", "beam_size"),
        ("beam_size=4 --decode_beam_size=5", "beam_size=4, --decode_beam_size=5;"),
        ("alpha=2,beam_size=4 --decode_beam_size=5 --decode_alpha=1", "alpha=2.0, --decode_alpha="),
        ("num_samples=5", "--decode_hparams=num_samples=5:"),
        ("force_decode_length=True", "force_decode_length=True:"),
        ("shard_id=3", "shard_id=3: shards=1 0"),
        ("shards=0,shard_id=-1", "shard_id=-1: shards=0 0"),
    )),
    (bleu, "--translation=a --reference=b --smooth_value=0.5", "--smooth_value --smooth_method=floor add-k"),
    (bleu, "--chrf --nochrf", "--chrf --nochrf;"),
    (bleu, "", "--translation --reference"),
    (bleu, "--reference=in", "--translation"),
    (importer, "--output_dir=x", "--model_dir --vocab_file --from=tensor2tensor"),
    (importer, "--from=huggingface --output_dir=x", "--model_dir"),
    (importer, "--from=huggingface --model_dir=. --output_dir=x --step=3", "--step --from=huggingface"),
    (bleu, "--translations_dir=.", "--reference:"),
    (bleu, "--translations_dir=none --reference=in", "--translations_dir=none:"),
    (bleu, f"{BLEU} --min_steps=11", "--translations_dir=.: 11"),
    (bleu, f"{BLEU} --chrf", "--chrf: --translations_dir"),
    (bleu, f"{BLEU} --source=a --chrf_beta=1 --nochrf_whitespace --ter_no_punct",
     "--source, --chrf_beta, --chrf_whitespace, --ter_no_punct: --translations_dir"),
    (bleu, f"{BLEU} --tag_suffix=a", "--tag_suffix: --event_dir;"),
    (bleu, f"{BLEU} --bleu_variant=both --lowercase", "--bleu_variant --lowercase"),
    (tune, "", "--study:"),
    (translate_all, "--model_dir=.", "--source:"),
    (translate_all, "--model_dir=none --source=in", "none;"),
    (make_tf_configs, "", "--masters:"),
    (make_tf_configs, "--masters=a", "'a'"),
    (make_tf_configs, "--masters=slurm", "--worker_hosts=slurm"),
    (make_tf_configs, "--masters=a:1 --ps=b:1", "--ps=b:1:"),
    (query_server, "", "--server:"),
    (runs, "", "--folder:"),
    (runs, "none", "none:"),
    (runs, ". --sort=sped", "--sort: 'sped'"),
    (runs, ". --filter=stat=x", "--filter: 'stat'; state"),
    (runs, ". --filter=x", "'x'"),
]  # fmt: skip
"""Commands, arguments in a folder with a file `in`, and what the error names."""


@pytest.mark.parametrize(
    ("command", "arguments", "about"),
    [*((command, flag, flag) for command, wrong in WRONG_VALUES.items() for flag in wrong), *MISTAKES],
    ids=lambda value: value.__name__.removeprefix("t2t.cli.") if hasattr(value, "main") else value[:60] or "none",
)
def test_a_mistake_is_one_line_with_status_2(command, arguments, about, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    folders = ["--data_dir=data"] if command in (trainer, datagen) else []
    folders += ["--output_dir=run"] if command is trainer else []
    check_refused(command, *shlex.split(arguments), *folders, about=about)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert (tmp_path / "in").read_text() == "a\n"


def test_an_output_directory_that_is_a_file_and_two_translations_of_a_step(tmp_path):
    (tmp_path / "run").write_text("mine")
    flags = f"--output_dir={tmp_path}/run"
    check_refused(trainer, *RUN.split(), flags, f"--data_dir={tmp_path}", about=f"{flags}:")
    assert (tmp_path / "run").read_text() == "mine"
    for name in ("one-9", "other-9"):
        (tmp_path / name).write_text("x\n")
    check_refused(bleu, f"--translations_dir={tmp_path}", f"--reference={tmp_path}/one-9", about="one-9 other-9 9;")


@pytest.mark.parametrize(
    ("files", "about"),
    [
        ({"__init__": "import sys\n\nsys.exit(0)\n"}, ""),
        ({"__init__": "from . import inner\n", "inner": "a = 1\nb = = 2\n"}, "{folder}/inner.py:2: SyntaxError"),
    ],
)
def test_a_plugin_that_is_broken_or_ends_the_process(files, about, tmp_path):
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    flag = f"--t2t_usr_dir={tmp_path}"
    check_refused(datagen, flag, "--problem=x", about=f"{flag} {about.format(folder=tmp_path)}")


def test_a_reference_has_as_many_lines_as_the_inputs_before_anything_is_decoded(tmp_path):
    source, reference = tmp_path / "in", tmp_path / "reference"
    source.write_text("a\n\nb")
    flags = ["--output_dir=/nowhere", f"--decode_from_file={source}", f"--decode_reference={reference}"]
    for lines, about in (("a\nb\n", f"{source} 3 {reference} 2"), ("a\nb\nc\n", "/nowhere;")):
        reference.write_text(lines)
        check_refused(decoder, *flags, about=about)
    source.write_text("a\n")
    flags[2] += f",{source}"
    check_refused(decoder, *flags, about=f"{source} 1 {reference} 3")


def test_listing_names_needs_nothing_else(capsys):
    assert trainer.main(["t2t-trainer", "--registry_help=reverse_decimal"]) == 0
    shown = capsys.readouterr().out
    assert "algorithmic_reverse_decimal40" in shown
    assert "<name>_rev, <name>_copy" in shown
    assert "transformer_base" not in shown


def test_a_second_name_is_known_in_the_command_that_has_it():
    """However absl describes the alias; in another command the same name may be a separate flag."""
    one, other = flags.FlagValues(), flags.FlagValues()
    for name in ("first", "second"):
        flags.DEFINE_string(name, "", "Alias for --first.", flag_values=other)
    flags.DEFINE_string("first", "", "A flag.", flag_values=one)
    define_alias("second", "first", flag_values=one)
    arguments = ["t2t-command", "--first=a", "--second=b"]
    with refused("--first", "--first=a", "--second=b"):
        parse(one, arguments, "")
    read = parse(other, arguments, "")
    assert (read["first"].value, read["second"].value) == ("a", "b")


@pytest.mark.parametrize("argument", ["-h", "--help", "-help", "--help=true", "-h=true"])
def test_the_help_is_shown_however_it_is_asked_for(argument, tmp_path, capsys):
    assert runs.main(["t2t-runs", argument, str(tmp_path)]) == 0
    assert "\n    t2t-runs " in capsys.readouterr().out


def reader(*positional):
    """Returns a function that parses a command line with flags of each kind; returns the values of all flags."""

    def read(*arguments):
        values = flags.FlagValues()
        for name in ("order_by", "file", "gold"):
            flags.DEFINE_string(name, "", "Text.", flag_values=values)
        flags.DEFINE_multi_string("runs", [], "Several.", flag_values=values)
        flags.DEFINE_float("least", 0.0, "A number.", flag_values=values)
        flags.DEFINE_boolean("quick", True, "Other.", flag_values=values)
        parse(values, ["command", *arguments], "", positional)
        return {name: values[name].value for name in values if values[name].value != values[name].default}

    return read


def test_dashes_tell_flags_from_values_and_plain_arguments_go_to_the_flags_they_stand_for():
    read = reader("file")
    assert read("-order-by=-best", "-noquick", "-") == {"order_by": "-best", "quick": False, "file": "-"}
    assert read("--order_by", "-best", "-least", "-5") == {"order_by": "-best", "least": -5.0}
    with refused("--order_by", "--order_by=a", "--order_by=b"):
        read("-order_by=a", "--order_by=b")
    with refused("--oder_by", "order_by"):
        read("-oder_by=a")
    read = reader("gold", "runs")
    assert read() == {}
    assert read("a") == {"gold": "a"}
    assert read("a", "b", "--noquick", "c") == {"gold": "a", "runs": ["b", "c"], "quick": False}
    assert read("--runs=b", "a", "--runs=c", "d") == {"gold": "a", "runs": ["b", "c", "d"]}
    with refused("'a':", "--gold,"):
        read("--gold=x", "a")
