"""`--config`: files with flags and hparams, before which the command line comes; files in an object store."""

import tomllib
from pathlib import Path

import pytest
from absl import flags
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, eval, exporter, trainer, tune
from t2t.cli.common import check_values, mirror_files, parse
from t2t.cli.config import format_config, refuse_flags
from t2t.cli.decoding_flags import given_hparams, trained_overrides
from t2t.cli.problem_flags import config_of
from t2t.files.paths import address_of, named_files
from t2t.runs.config import RunConfig
from t2t.runs.names import build_hparams
from tests.errors import refused
from tests.in_process import call, check_refused, refuses
from tests.many_runs import create_run
from tests.stores import memory_store
from tests.unit.cli.test_cli_early import write_run

RUN = """
problem = "translate_ende_numbers"   # a comment
model = "transformer"
hparams_set = "transformer_quickstart"
data_dir = "data"
output_dir = "none"
train_steps = 40
random_seed = 7
filter_language = true
filter_length_ratio = 2

[hparams]
learning_rate = 1e-3
num_heads = 2
precision = "float32"
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


@pytest.fixture
def made_run(tmp_path):
    """Returns a function that writes a run of a problem; returns its folder."""
    return lambda problem, **fields: create_run(tmp_path / "run", problem, **fields).path


def test_a_folder_without_a_run_is_named_with_the_names_that_it_leaves_open(made_run):
    folder = made_run("text2text_files").parent / "rnu"
    check_refused(trainer, f"--output_dir={folder}", about=f"--problem, --model, --hparams_set: {folder} run?")


def parsed(command, *arguments):
    return parse(command.build_flags(), ["t2t", *arguments], "")


WORDS = """
problem = "parsing_trees"
model = "transformer"
hparams_set = "transformer_tiny"

[hparams]
positions = "words"
read_next_word = true
beam_size = 8
"""
LATER = "--problems=algorithmic_reverse_decimal40 --nofilter_language --hparams=num_heads=4 --hparams=batch_size=9"
FILTERS = {"filter_language": True, "filter_length_ratio": 2.0}
BEAMS = "decode_hparams = 'beam_size=3,return_beams=True'\n"
SHORT = "--hparams=positions=rotary --hparams=decode_method=greedy"
WINDOWS = "\ufefftrain_steps = 3\r\n[hparams]\r\nbatch_size = 7\r\n"
"""As editors of Windows write: a byte order mark, and lines that end with a carriage return."""

DATA_SEED = datagen.build_flags()["random_seed"].value

READ = {
    "flags": (RUN, trainer, "", {
        "problem": "translate_ende_numbers", "model": "transformer", "data_dir": "data", "train_steps": 40,
        "random_seed": 7, "filter_language": True, "overrides": "learning_rate=0.001,num_heads=2,precision=float32",
    }),
    "the command line comes before the file": (RUN, trainer, f"--train_steps=5 {LATER}", {
        "train_steps": 5, "filter_language": False, "problem": "algorithmic_reverse_decimal40",
        "overrides": "learning_rate=0.001,precision=float32,num_heads=4,batch_size=9",
    }),
    # read_next_word is only read with positions=words, beam_size only in beam search.
    "the command line drops what it leaves unread": (
        WORDS, trainer, SHORT, {"overrides": "positions=rotary,decode_method=greedy"},
    ),
    "also in t2t-tune": (WORDS, tune, SHORT, {"hparams": "positions=rotary,decode_method=greedy"}),
    "a search flag drops what it leaves unread": (WORDS, decoder, "--decode_method=greedy", {
        "hparams": "positions=words,read_next_word=True",
        "trained": "positions=words,read_next_word=True,decode_method=greedy",
    }),
    "search flags come before the hparams of the file": (
        WORDS, trainer, "--decode_beam_size=3", {"overrides": "positions=words,read_next_word=True,beam_size=3"},
    ),
    # Commands skip flags that only others have; seeds of data and sampling are separate from the run's seed.
    "one file is for several commands": (
        RUN, datagen, "", {"problem": "translate_ende_numbers", "random_seed": DATA_SEED},
    ),
    "the decoder's": (RUN, decoder, "", {"output_dir": "none"}),
    "t2t-tune's": (RUN, tune, "", {"train_steps": 40}),
    "evaluations of training": ("eval_steps = 5\n" + RUN, trainer, "", {"eval_steps": 5}),
    "limit no others": ("eval_steps = 5\n" + RUN, eval, "", {"eval_steps": 0}),
    "an option with its default is given": (
        "subword_sampling = 0.0\n" + RUN, trainer, "", {"options": {**FILTERS, "subword_sampling": 0.0}},
    ),
    "also on the command line": ("subword_sampling = 0.0\n" + RUN, trainer, "--nofilter_language --vocab_kind=", {
        "options": {**FILTERS, "filter_language": False, "subword_sampling": 0.0, "vocab_kind": ""},
    }),
    "training reads what": (
        "subword_sampling = 0.1\n" + RUN, trainer, "", {"options": {**FILTERS, "subword_sampling": 0.1}},
    ),
    "generation skips": ("subword_sampling = 0.1\n" + RUN, datagen, "", {"options": FILTERS}),
    "--decode_hparams comes before the file": (
        "decode_beam_size = 2\n", decoder, "--decode_hparams=beam_size=3", {"decode_beam_size": 3},
    ),
    "flags come before --decode_hparams of the file": (
        BEAMS, decoder, "--decode_beam_size=2", {"decode_beam_size": 2, "n_best": 3},
    ),
    "as Windows writes": (WINDOWS, trainer, "", {"train_steps": 3, "hparams": "batch_size=7"}),
}  # fmt: skip
"""What a file says, a command and its other arguments; values of flags, the problem's options, hparams."""
DERIVED = {
    "overrides": lambda values: config_of(values).hparams,
    "options": lambda values: config_of(values).problem_options,
    "hparams": given_hparams,
    "trained": trained_overrides,
}


@pytest.mark.parametrize(("text", "command", "arguments", "expected"), READ.values(), ids=READ)
def test_flags_and_hparams_of_a_file(config, text, command, arguments, expected):
    config.write_text(text)
    values = parsed(command, f"--config={config}", *arguments.split())
    found = {name: DERIVED[name](values) if name in DERIVED else values[name].value for name in expected}
    assert found == expected


def test_a_schedule_that_only_evaluates_asks_for_no_seed():
    config = config_of(parsed(trainer, "--schedule=evaluate", "--random_seed=5", *SHORT.split()))
    assert (config.schedule, config.random_seed) == (RunConfig().schedule, 0)


def test_what_the_command_line_itself_leaves_unread_is_refused(config):
    config.write_text(WORDS)
    build_hparams(config_of(parsed(trainer, f"--config={config}", *SHORT.split())))[0].freeze()
    unread = config_of(parsed(trainer, f"--config={config}", "--hparams=positions=rotary,read_next_word=true"))
    with refused("read_next_word=True:", "positions=rotary"):
        build_hparams(unread)[0].freeze()


def test_the_set_of_the_run_says_what_the_command_line_leaves_unread_and_two_widths_are_refused(config, made_run):
    config.write_text("[hparams]\npositions = 'words'\nread_next_word = true\n")
    run = f"--output_dir={made_run('parsing_trees')}"
    values = parsed(decoder, f"--config={config}", run, "--hparams=positions=rotary")
    assert trained_overrides(values) == "positions=rotary"
    config.write_text("decode_hparams = 'beam_size=3'\ndecode_beam_size = 2\n")
    with refused("--decode_hparams:", "beam_size=3", "--decode_beam_size=2"):
        parsed(decoder, f"--config={config}")


def test_data_are_not_those_without_a_filter_that_is_turned_off(tmp_path):
    (tmp_path / "text").write_text("a b c\n")
    files = [f"--{split}_{side}={tmp_path / 'text'}" for split in ("train", "dev") for side in ("source", "target")]
    flags = ["--problem=text2text_files", "--vocab_kind=byte", f"--data_dir={tmp_path}", *files]
    for own in (["--filter_max_words=6"], []):
        call(datagen, *flags, *own)
    check_refused(datagen, *flags, "--filter_max_words=0", about="filter_max_words: 6")


UNREAD = """
data_dir = "gone"
decode_beam_size = 2
n_best = 2
output_format = "files"
alignments = true
token_scores = true
split = "test"
compare_engine = true
decode_hparams = "alpha=0.3"
track = "wandb, unknown"
decode_from_file = "{folder}/gone"
decode_to_file = "{folder}/gone/out"
decode_reference = "{folder}/gone"
dry_run = true
warm_start_from = "gone"
warm_start_optimizer = true
keep_best_checkpoints = 5
"""
NO_FILES = ("--decode_from_file=", "--decode_reference=")


@pytest.mark.parametrize(
    ("command", "arguments", "about"),
    [
        (eval, ["--choice_file=/gone"], "/gone:"),
        (decoder, [*NO_FILES, "--score_file=/gone"], "/gone:"),
        (decoder, [*NO_FILES, "--align_file=/gone"], "/gone:"),
        (decoder, [*NO_FILES, "--attention_to_html=/gone/page"], "/gone/page:"),
        (trainer, ["--schedule=evaluate"], "text2text_files gone"),
        (trainer, ["--schedule=evaluate_on_train_data"], "text2text_files gone"),
    ],
)
def test_a_mode_skips_what_it_does_not_read_of_the_file(command, arguments, about, config, made_run, tmp_path):
    run = made_run("text2text_files")
    CheckpointStore(run / "checkpoints").save(1, model={})
    config.write_text(UNREAD.format(folder=tmp_path))
    check_refused(command, f"--config={config}", f"--output_dir={run}", *arguments, about=about)


def test_a_mode_refuses_what_the_command_line_gives_over_the_file(config):
    config.write_text("decode_beam_size = 2\ndecode_alpha = 1.0\n")
    values = parsed(decoder, f"--config={config}", "--decode_beam_size=3")
    with refused("--decode_beam_size:") as error:
        refuse_flags(values, ("decode_beam_size", "decode_alpha"), "it searches nothing")
    assert "decode_alpha" not in str(error.value)
    assert (values.decode_beam_size, values.decode_alpha) == (3, None)


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ("train_steps = 1\ntrain_step = 3", 2, "train_step train_steps"),
        ("batch_size = 3", 1, "batch_size [hparams]?"),
        ("lr = 3\nhparams_set = 3", 1, "lr learning_rate [hparams]?"),
        ('train_steps = "3"', 1, 'train_steps = "3":'),
        ("train_steps = true", 1, "train_steps = true:"),
        ("train_steps = 3.0", 1, "train_steps = 3.0:"),
        ("train_steps = [3]", 1, "train_steps = [3]:"),
        ("data_dir = 3", 1, "data_dir = 3:"),
        ('filter_language = "yes"', 1, 'filter_language = "yes":'),
        ("train_steps = -3", 1, "--train_steps=-3"),
        ("filter_length_ratio = nan", 0, "filter_length_ratio=nan:"),
        ("model = 'a'\nmodel = 'b'", 0, "TOML:"),
        ("model = a", 1, "9: TOML:"),
        ("[hparam]\nx = 1", 1, "hparam hparams"),
        ("config = 'b.toml'", 1, "config"),
        ("hparams = 3", 1, "hparams = 3:"),
        ("[hparams]\nx = 1\nbatch_size = 2020-01-01", 3, "batch_size=datetime.date(2020, 1, 1): date"),
        ("[hparams.a]\nx = 1", 1, "a={'x': 1}: dict"),
        ("use_tpu = true", 1, "use_tpu"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_place(text, line, about, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with refused(*about.split()) as error:
        parsed(trainer, f"--config={path}")
    assert f"line {line}" * bool(line) in str(error.value)


SETS = """
model = "transformer"
problem = "translate_ende_numbers"
hparams_set = "transformer_tiny"
"""


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ("[hparams]\nbatch_size = 9\ndropout = 0.3", 7, "'dropout' layer_prepostprocess_dropout"),
        ("[hparams]\nnum_heads = 'a'", 6, "num_heads=a: int"),
        ("[hparams]\nbatch_size = 9\nattention_dropout = 3.0", 7, "attention_dropout=3.0:"),
        ("hparams = ['num_heads=2', 'beams=4']", 5, "'beams' beam_size"),
    ],
)
@pytest.mark.parametrize("command", [trainer, tune, decoder])
def test_an_hparam_that_the_set_does_not_take_is_named_with_its_place(text, line, about, command, config):
    config.write_text(f"{SETS}{text}\n")
    with refused(f"{config},", line, *about.split()):
        given_hparams(parsed(command, f"--config={config}"))


def test_an_hparam_of_a_file_that_the_command_line_replaces_may_be_wrong(config):
    config.write_text(f"{SETS}[hparams]\nnum_heads = 'a'\n")
    assert given_hparams(parsed(trainer, f"--config={config}", "--hparams=num_heads=2")) == "num_heads=2"


def test_files_that_cannot_be_read_and_text_that_is_no_unicode_are_refused(tmp_path):
    with refused("--config=none.toml:"):
        parsed(trainer, "--config=none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with refused("bad.toml:", "TOML"):
        parsed(trainer, f"--config={tmp_path / 'bad.toml'}")
    with refused("Unicode,", "TOML"):
        format_config({"data_dir": "\udcff"}, {})


def test_what_is_printed_is_the_same_run(config, tmp_path):
    arguments = [f"--config={config}", "--hparams=num_heads=4,beam_size=3", "--worker_cpu=2", "--vocab_size=500"]
    arguments += ["--decode_alpha=0.7", '--tmp_dir=a "b" \\ c']
    copy = tmp_path / "printed.toml"
    copy.write_text(printed(*arguments))
    again, first = (parsed(trainer, *given) for given in ([f"--config={copy}"], arguments))
    assert tomllib.loads(printed(f"--config={copy}")) == tomllib.loads(copy.read_text())
    one, other = config_of(first), config_of(again)
    assert {*one.hparams.split(",")} == {*other.hparams.split(",")}
    assert (one.problem, one.problem_options) == (other.problem, other.problem_options)
    assert first.tmp_dir == again.tmp_dir == 'a "b" \\ c'
    assert (first.worker_cpu, first.random_seed) == (again.worker_cpu, again.random_seed) == (2, 7)


def printed(*arguments):
    """Returns what t2t-trainer prints with --print_config."""
    return call(trainer, *arguments, "--print_config").out


def test_what_is_printed_says_of_each_value_whether_it_is_of_the_file(config):
    config.write_text(config.read_text() + "alpha = 0.4\n")
    lines = printed(f"--config={config}", "--hparams=num_heads=4", "--decode_alpha=0.7", "--data_dir=other").split("\n")
    of_file = {line.partition(" = ")[0] for line in lines if line.endswith("  # the --config file")}
    others = {line.partition(" = ")[0] for line in lines if "#" not in line and " = " in line}
    assert others == {"num_heads", "alpha", "data_dir"}
    read = tomllib.loads(config.read_text())
    assert of_file == (read.keys() | read["hparams"].keys()) - others - {"hparams"}


def test_what_is_printed_of_a_run_of_several_problems_is_read(made_run, config):
    names = ("translate_ende_multi30k", "translate_enfr_multi30k")
    run = made_run("-".join(names), problem_options={f"{name}.vocab_size": 4000 for name in names})
    config.write_text(printed(f"--output_dir={run}"))
    read = config_of(parsed(trainer, f"--config={config}"))
    assert (read.problem, read.problem_options) == ("-".join(names), {"vocab_size": 4000})


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], {"eval_steps = 5  # the run in output_dir", 'schedule = "train"  # the run in output_dir'}),
        (["--eval_steps=100", "--schedule=train_and_evaluate"],
         {"eval_steps = 100", 'schedule = "continuous_train_and_eval"'}),
    ],
)  # fmt: skip
def test_the_settings_of_a_run_are_printed(made_run, flags, expected):
    run = made_run(
        "translate_ende_multi30k", settings={"eval_steps": 5, "local_eval_frequency": 1000, "schedule": "train"}
    )
    lines = printed(f"--output_dir={run}", *flags).split("\n")
    assert {line for line in lines if line.startswith(("eval", "local", "sched"))} == expected


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXT,
    st.lists(TEXT, max_size=3),
)  # fmt: skip


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from("abc_"), VALUES), st.dictionaries(st.just("b"), VALUES))
def test_every_value_is_read_as_it_was_written(found, hparams):
    text = format_config(found, hparams)
    assert tomllib.loads(text) == {**found, **({"hparams": hparams} if hparams else {})}


# === Files in an object store that flags name ===
@pytest.fixture
def store(tmp_path, monkeypatch):
    with memory_store(monkeypatch, tmp_path / "cache") as opened:
        yield opened


def mirrored(**given):
    """The values of flags of text once the files that they name are here."""
    values = flags.FlagValues()
    for name, value in given.items():
        flags.DEFINE_string(name, value, "A flag.", flag_values=values)
    values.mark_as_parsed()
    check_values(values)
    mirror_files(values)
    return {name: values[name].value for name in given}


def test_several_vocabularies_are_fetched(store, tmp_path):
    store.files.pipe({"/b/x.spm": b"x", "/b/y.spm": b"y"})
    (tmp_path / "z.spm").write_bytes(b"z")
    asked = f"memory://b/x.spm, {tmp_path}/z.spm,memory://b/y.spm"
    paths = named_files(mirrored(vocab_file=asked)["vocab_file"])
    assert [path.read_bytes() for path in paths] == [b"x", b"z", b"y"]
    assert [address_of(path) for path in paths] == ["memory://b/x.spm", None, "memory://b/y.spm"]


def test_a_comma_in_another_file_is_part_of_its_name_and_names_of_this_machine_stay_as_they_are(store):
    store.files.pipe("/b/x,y.txt", b"text")
    (path,) = mirrored(decode_from_file="memory://b/x,y.txt").values()
    assert address_of(path) == "memory://b/x,y.txt"
    assert Path(path).read_text() == "text"
    given = {"vocab_file": "x.spm,y.spm", "decode_from_file": "a,b", "train_source": "memory://b/x"}
    assert mirrored(**given) == given


@pytest.mark.parametrize("name", ["decode_from_file", "decode_to_file", "param_file", "choice_file", "plot"])
def test_files_may_be_named_by_the_home_folder(name, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert mirrored(**{name: "~/a b,c"}) == {name: "/home/me/a b,c"}
    assert mirrored(vocab_file="~/x.spm,~/y.spm", tag_suffix="~") == {
        "vocab_file": "~/x.spm,~/y.spm",
        "tag_suffix": "~",
    }


def test_an_export_of_a_run_in_a_store_has_a_folder(store):
    write_run("memory://b/run")
    refuses(exporter, "--export_dir:", output_dir="memory://b/run")
