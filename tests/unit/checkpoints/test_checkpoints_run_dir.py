"""The run directory: what it records, its lock, damaged and newer records, and safety of untrusted runs."""

import contextlib
import dataclasses
import json
import math
import os
import subprocess
import sys

import pytest

from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.checkpoints.run_record import RunRecord
from t2t.errors import MachineError
from t2t.hparams.transformer import transformer_base
from t2t.registry.plugins import load_plugins
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.byte import ByteEncoder
from t2t.text.vocabulary_files import describe_encoders
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.sealed_files import edited

WORDS, FEWER = TokenEncoder(["eins", "zwei", "drei"]), TokenEncoder(["eins"])
ENCODERS = {"inputs": ByteEncoder(), "targets": WORDS}


def record(encoders=ENCODERS, **changes) -> RunRecord:
    features = {
        name: FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=encoder.vocab_size) for name, encoder in encoders.items()
    }
    return dataclasses.replace(
        RunRecord(
            problem="translate_ende_numbers", model="transformer", hparams_set="transformer_base",
            overrides="num_heads=4", hparams=transformer_base().replace(num_heads=4).to_dict(),
            problem_options={"vocab_size": 99}, spec=ProblemSpec(name="translate_ende_numbers", features=features),
            data_fingerprint="d" * 64, versions={"t2t": "0.1", "python": "3.11"},
            plugins=[{"name": "mine", "kind": "usr_dir", "fingerprint": "f", "registered": ["problem:x"]}],
            vocabularies=describe_encoders(encoders),
        ),
        **changes,
    )  # fmt: skip


def with_hparams(**values) -> RunRecord:
    return record(hparams=transformer_base().replace(num_heads=4, **values).to_dict())


@pytest.fixture
def run(tmp_path) -> RunDir:
    return RunDir.create(tmp_path / "run", record(), ENCODERS)


def edit(run, change):
    with edited(run.path / "run.json") as data:
        change(data)


# === What is remembered ===
def test_a_run_comes_back_as_it_was_recorded(run):
    opened = RunDir.open(run.path)
    assert opened.record.to_dict() == run.record.to_dict()
    assert opened.record.spec == record().spec
    assert opened.record.problem_options == {"vocab_size": 99}
    assert opened.record.created.endswith("+00:00")
    assert transformer_base().from_dict(opened.record.hparams).num_heads == 4


def test_the_vocabularies_come_with_the_run(run, tmp_path):
    moved = run.path.rename(tmp_path / "elsewhere")
    encoders = RunDir.open(moved).encoders()
    assert sorted(os.listdir(moved / "vocab")) == [
        "vocab.inputs.byte" + ByteEncoder.file_suffix, "vocab.targets.token.tokens",
    ]  # fmt: skip
    assert encoders["targets"].encode("drei zwei") == WORDS.encode("drei zwei")
    assert encoders["inputs"].fingerprint == ByteEncoder().fingerprint
    shared = {"inputs": WORDS, "targets": TokenEncoder(["eins", "zwei", "drei"])}  # one file and object of both
    run = RunDir.create(tmp_path / "shared", record(shared), shared)
    assert os.listdir(run.path / "vocab") == ["vocab.shared.token.tokens"]
    encoders = RunDir.open(run.path).encoders()
    assert encoders["inputs"] is encoders["targets"]
    with refused("'a/b'"):
        describe_encoders({"a/b": WORDS})  # no name of a file


def full_disk(at):
    """Returns a function for `before_calls` that fails at the n-th replacement of a file."""
    left = [at]

    def fail(name, path, target):
        left[0] -= 1
        if not left[0]:
            raise OSError(28, "No space left on device", str(target))

    return fail


@pytest.mark.parametrize("number", [1, 2, 3], ids=["first vocabulary", "second vocabulary", "record"])
def test_an_interrupted_beginning_is_no_run_and_can_begin_again(tmp_path, before_calls, number):
    with before_calls(full_disk(number), (os, "replace")), refused(tmp_path, by=MachineError):
        RunDir.create(tmp_path, record(), ENCODERS)
    assert not RunDir.exists(tmp_path)
    RunDir.create(tmp_path, record(), ENCODERS)
    assert RunDir.open(tmp_path).encoders().keys() == {"inputs", "targets"}


# === Opening ===
def test_no_run_there_and_checkpoints_without_a_record(tmp_path):
    with refused(tmp_path, f"--output_dir={tmp_path}"):
        RunDir.open(tmp_path)
    RunDir.create(tmp_path / "near" / "ende_small", record(), ENCODERS)
    with refused("near/de_en_small;", "ende_small?"):
        RunDir.open(tmp_path / "near" / "de_en_small")
    with refused(f"{tmp_path}/near;", f"{tmp_path}/near/ende_small?"):
        RunDir.open(tmp_path / "near")
    (tmp_path / "checkpoints" / "step-00000500").mkdir(parents=True)
    with refused("run.json"):
        RunDir.create(tmp_path, record(), ENCODERS)


@pytest.mark.parametrize(("figures", "checkpoint", "about"), [
    ({0: "dev/loss"}, None, []),  # it was evaluated untrained
    *(({}, name, []) for name in (".tmp-step-00000500", ".averaged.lock", ".tmp-averaged")),
    *(({}, name, ["--output_dir"]) for name in ("step-00000500", ".old-step-00000500", "averaged", "latest.json")),
    ({100: "loss", 50: "dev/loss"}, None, [50, "run/checkpoints"]),  # its checkpoints are gone
])  # fmt: skip
def test_a_run_begins_anew_unless_it_has_finished_or_evaluated_checkpoints(run, figures, checkpoint, about):
    for step, name in figures.items():
        run.append_metrics(step, {name: 3.0})
    if checkpoint:
        (run.path / "checkpoints" / checkpoint).mkdir(parents=True)
    assert run.has_checkpoints == bool(checkpoint and about)
    if checkpoint or not about:
        assert run.can_resume == bool(about)
    with refused(*about) if about else contextlib.nullcontext():
        RunDir.create(run.path, record(random_seed=5), {})
    assert RunDir.open(run.path).record.random_seed == (run.record.random_seed if about else 5)


@pytest.fixture
def begun(run):
    """A run with figures and without checkpoints."""
    run.append_metrics(100, {"loss": 3.0})
    run.dev_outputs_file.touch()
    (run.path / "tracking.json").touch()
    (run.path / "events" / "train").mkdir(parents=True)
    (run.path / "events" / "train" / "events.out.tfevents.1").touch()
    return run


def test_a_run_without_checkpoints_begins_anew_and_says_what_it_had_done(begun, caplog, before_calls):
    before = (begun.path / "run.json").read_bytes()
    with before_calls(full_disk(3), (os, "replace")), refused(begun.path, by=MachineError):
        RunDir.create(begun.path, record(random_seed=5), ENCODERS)
    assert (begun.path / "run.json").read_bytes() == before, "the old record stays until there is the new one"
    begun.append_metrics(100, {"loss": 3.0})
    caplog.clear()
    assert not begun.can_resume
    RunDir.create(begun.path, record(random_seed=5), {})
    assert [str(begun.path) in message and "100" in message for message in caplog.messages] == [True]
    assert sorted(path.name for path in begun.path.iterdir()) == ["run.json", "vocab"]
    assert RunDir.open(begun.path).record.random_seed == 5


# === A stranger's run ===
def test_links_to_outside_are_not_followed(run, tmp_path):
    (tmp_path / "outside").write_bytes(WORDS.to_bytes())
    inside = run.path / "vocab" / "vocab.targets.token.tokens"
    inside.unlink()
    inside.symlink_to(tmp_path / "outside")
    with refused(inside):
        RunDir.open(run.path).encoders()
    (run.path / "run.json").rename(tmp_path / "run.json")
    (run.path / "run.json").symlink_to(tmp_path / "run.json")
    with refused(run.path / "run.json"):
        RunDir.open(run.path)


def test_opening_a_run_imports_nothing_and_reads_nothing_else(run):
    edit(run, lambda data: data.update(problem="os.system", model="antigravity", plugins=[{"name": "antigravity"}]))
    script = (
        "import sys\n"
        "from t2t.checkpoints.run_dir import RunDir\n"
        "from t2t.registry import VOCABULARIES\n"
        "assert [one.value for one in VOCABULARIES.entries()]\n"
        "before, opened = set(sys.modules), []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "RunDir.open(sys.argv[1]).encoders()\n"
        "print(sorted(set(sys.modules) - before), [f for f in opened if not f.startswith(sys.argv[1])])"
    )
    found = subprocess.run([sys.executable, "-c", script, str(run.path)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] []"


# === Vocabularies ===
def test_a_changed_vocabulary_is_refused_before_it_is_parsed(run):
    file = run.path / "vocab" / "vocab.targets.token.tokens"
    file.write_bytes(TokenEncoder(["eins", "zwei", "vier"]).to_bytes())
    with refused(file, WORDS.fingerprint[:12]):
        RunDir.open(run.path).encoders()
    file.unlink()
    with refused(file):
        RunDir.open(run.path).encoders()


# === Resuming ===
@pytest.mark.parametrize(("asked", "about"), [
    (record(problem="other"), "problem other translate_ende_numbers"),
    (record(model="lstm"), "model lstm transformer"),
    (record(hparams_set="transformer_big"), "hparams_set transformer_big transformer_base"),
    (with_hparams(hidden_size=64), "hidden_size 64 512"),
    (with_hparams(learning_rate=0.1), "learning_rate 0.1 1.0"),
    (record(problem_options={}), "vocab_size 99"),
    (record(problem_options={"vocab_size": 99, "path": "a"}), "path a"),
    (record(data_fingerprint="e" * 64), "data_fingerprint eeeeeeeeeeee dddddddddddd"),
    (record(data_fingerprint=""), "data_fingerprint dddddddddddd"),
    (record({"inputs": ByteEncoder(), "targets": FEWER}),
     f"targets {FEWER.fingerprint[:12]} {WORDS.fingerprint[:12]} targets.vocab_size 4 6"),
])  # fmt: skip
def test_another_run_is_told_by_what_differs(run, asked, about):
    before = (run.path / "run.json").read_bytes()
    for refuse in (run.check_same, run.resume):
        with refused(f"--output_dir={run.path}", f"--warm_start_from={run.path}", *about.split()):
            refuse(asked)
    with refused("--output_dir") as caught:
        run.check_same(record(hparams={"model": {name: -1 for name in run.record.hparams["model"]}}))
    assert len(str(caught.value)) < 1000, "many differences are cut"
    RunDir.open(run.path).check_same(record())
    RunDir.open(run.path).resume(record())
    assert (run.path / "run.json").read_bytes() == before


def test_allowed_changes_are_recorded_and_others_still_refused(run):
    asked = dataclasses.replace(with_hparams(train_steps=7, alpha=1.0), overrides="train_steps=7")
    run.resume(asked, may_change={"train_steps", "alpha", "data_fingerprint"})
    opened = RunDir.open(run.path)
    assert opened.record.hparams["train"]["train_steps"] == 7
    assert opened.record.overrides == "train_steps=7"
    assert opened.record.created == run.record.created
    with refused("hidden_size", 64, 512):
        run.resume(with_hparams(train_steps=8, alpha=1.0, hidden_size=64), may_change={"train_steps"})
    assert RunDir.open(run.path).record.hparams["train"]["train_steps"] == 7
    run.resume(dataclasses.replace(run.record, settings={"eval_steps": 5, "keep_best_checkpoints": 3}))
    run.resume(dataclasses.replace(run.record, settings={"eval_steps": 0}))  # others stay
    assert RunDir.open(run.path).record.settings == {"eval_steps": 0, "keep_best_checkpoints": 3}


def test_what_did_not_exist_then_is_no_difference_but_an_hparam_that_is_gone_is(run):
    newer = record()
    newer.hparams["model"]["invented_later"] = 1
    features = {
        name: dataclasses.replace(feature, word_starts="1" * feature.vocab_size)
        for name, feature in newer.spec.features.items()
    }
    run.check_same(dataclasses.replace(newer, spec=dataclasses.replace(newer.spec, features=features)))
    older = record()
    del older.hparams["model"]["num_heads"]
    with refused("num_heads", 4):
        run.check_same(older)


def test_versions_and_plugins_are_said_to_have_changed_when_they_have_and_recorded(tmp_path, caplog):
    folder = tmp_path / "mine"
    folder.mkdir()

    def again(content, version):
        """Returns what changed according to the log, when a run goes on with a plug-in and a version."""
        (folder / "__init__.py").write_text(content)
        plugins = [dataclasses.asdict(plugin) for plugin in load_plugins(str(folder))]
        asked = record(plugins=plugins, versions={"t2t": version})
        if not RunDir.exists(tmp_path / "run"):
            RunDir.create(tmp_path / "run", asked, ENCODERS)
        caplog.clear()
        RunDir.open(tmp_path / "run").resume(asked)
        assert RunDir.open(tmp_path / "run").record.versions == asked.versions
        return [message.split()[0] for message in caplog.messages]

    assert again("", "0.1") == []
    assert again("# repaired\n", "0.1") == ["plugins"]
    assert again("# repaired\n", "0.1") == []
    assert again("# repaired again\n", "0.2") == ["plugins", "versions"]


def test_a_record_that_cannot_be_rewritten_stays(run, before_calls):
    with before_calls(full_disk(1), (os, "replace")), refused(run.path / "run.json", by=MachineError):
        run.resume(with_hparams(train_steps=7), may_change={"train_steps"})
    assert run.record.hparams["train"]["train_steps"] == RunDir.open(run.path).record.hparams["train"]["train_steps"]


# === Metrics ===
def test_metrics_are_lines_of_json_and_survive_a_torn_one(run):
    assert list(run.metrics()) == []
    run.append_metrics(10, {"loss": 2.5, "bleu": math.nan, "norm": math.inf})
    with run.metrics_file.open("ab") as file:
        file.write(b'{"step": 20, "lo')
    assert [line["step"] for line in run.metrics()] == [10]
    run.append_metrics(30, {"loss": 2})
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert lines == list(run.metrics())
    assert all(line.pop("time") > 1.6e9 for line in lines)
    assert lines == [{"step": 10, "loss": 2.5, "bleu": None, "norm": None}, {"step": 30, "loss": 2.0}]


def test_the_last_lines_of_figures_are_read_without_the_others(run):
    for step in range(1, 101):
        run.append_metrics(step, {"train/loss": 1.0})
    every = list(run.metrics())
    last = list(run.metrics(300))
    assert 1 < len(last) < 10
    assert last == every[-len(last) :]
    assert list(run.metrics(10**6)) == every


# === The lock: only one process trains in a run ===
def test_two_processes_do_not_train_in_one_place(tmp_path):
    path = tmp_path / "new" / "run"
    with lock_run(path):
        script = "import sys\nfrom t2t.checkpoints.run_dir import lock_run\nwith lock_run(sys.argv[1]): pass"
        second = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert all(word in second.stderr for word in ("UserError", f"--output_dir={path}", str(os.getpid())))
        RunDir.create(path, record(), ENCODERS)
    with lock_run(path):
        assert RunDir.exists(path)


def test_the_lock_is_free_after_an_error_and_what_is_refused_leaves_no_empty_folders(tmp_path):
    (tmp_path / "there").mkdir()
    for place in ("new/deep/run", "there", "there/run"):
        with pytest.raises(FileNotFoundError), lock_run(tmp_path / place):
            open(tmp_path / "missing").close()  # no error of the lock
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with lock_run(tmp_path / "new/deep/run"):
        (tmp_path / "new/deep/run/kept").touch()
    assert (tmp_path / "new/deep/run/kept").is_file()
    (tmp_path / "file").write_text("")
    with refused(f"--output_dir={tmp_path}/file/run", by=MachineError), lock_run(tmp_path / "file/run"):
        pass


# === Records from elsewhere ===
@pytest.mark.parametrize("content", [
    "", "{", "[]", "3", '"x"', "null", "{}", '{"format": "1"}', '{"format": 1}', "\udcff", '{"format": null}',
])  # fmt: skip
def test_a_damaged_record_and_a_newer_format_are_told(run, content):
    edit(run, lambda data: data.update(format=3, spec="something else"))
    with refused("run.json", 3, 2):
        RunDir.open(run.path)
    (run.path / "run.json").write_bytes(content.encode(errors="surrogateescape"))
    with refused("run.json"):
        RunDir.open(run.path)


OPEN_DICTS = ("hparams", "problem_options", "versions", "warm_start", "distilled", "settings")
WRONG = [
    {field.name: value}
    for field in dataclasses.fields(RunRecord) for value in (None, 3, [["x"]], {"x": 3})
    if not (field.name in OPEN_DICTS and isinstance(value, dict))
    and not (field.name == "plugins" and isinstance(value, list))
    and not (field.name == "random_seed" and value in (None, 3))
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_field_of_the_wrong_type_is_damage(run, wrong):
    edit(run, lambda data: data.update(wrong))
    with refused("run.json"):
        RunDir.open(run.path)


@pytest.mark.parametrize(
    "file", ["../secret", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "a\\b", "x" * 300, "a\n"]
)
def test_file_names_in_a_record_are_plain(run, file):
    edit(run, lambda data: data["vocabularies"]["targets"].update(file=file))
    with refused("run.json", "`$.vocabularies"):
        RunDir.open(run.path)
