"""Checkpoints and runs in an object store."""

import numpy as np
import pytest

from t2t.checkpoints.averaging import load_for_decoding
from t2t.checkpoints.best import Best
from t2t.checkpoints.checkpoint import MODEL
from t2t.checkpoints.dev_outputs import DevOutputs, add_dev_outputs, read_dev_outputs
from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import MachineError, UserError
from t2t.files.paths import local_path
from t2t.files.remote.mirror import names_in
from t2t.files.remote.store import Store
from t2t.text.token import TokenEncoder
from t2t.text.vocabulary_files import describe_encoders
from tests.builders import tokens_spec
from tests.stores import failing_uploads, memory_store

RUN = "memory://b/run"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.files.remote.owners.SETTLE_S", 0.01)
    with memory_store(monkeypatch, tmp_path / "cache") as opened:
        yield opened


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Returns a function that makes this process act as another machine, with an empty cache."""
    made = []

    def go():
        made.append(tmp_path / f"machine {len(made)}")
        monkeypatch.setenv("T2T_CACHE", str(made[-1]))
        return made[-1]

    return go


def checkpoints():
    return CheckpointStore(local_path(RUN) / "checkpoints")


def save(*steps):
    for step in steps:
        checkpoints().save(step, model={"w": np.full(3, step, np.float32)}, optimizer={"m": np.zeros(3)})


def create():
    encoders = {name: TokenEncoder(["a", "b"]) for name in ("inputs", "targets")}
    names = {"problem": "p", "model": "m", "hparams_set": "s", "hparams": {}}
    record = RunRecord(**names, spec=tokens_spec(), vocabularies=describe_encoders(encoders))
    return RunDir.create(RUN, record, encoders)


def test_another_machine_loads_what_was_saved(store, elsewhere):
    save(5, 10)
    checkpoints().mark_best(5, "bleu", 1.0)
    checkpoints().save_named("averaged", 10, model={"w": np.ones(3)})
    elsewhere()
    assert (checkpoints().steps(), checkpoints().names(), checkpoints().latest()) == ([5, 10], ["averaged"], 10)
    for which, step in {"latest": 10, "best": 5, "5": 5, "averaged": 10, f"{RUN}/checkpoints/step-00000005": 5}.items():
        assert checkpoints().load(which).step == step
    assert CheckpointStore(local_path("memory://b/other")).load(RUN).step == 10
    with pytest.raises(UserError, match=r"checkpoint '7': there is none; .* holds steps 5, 10, averaged; give latest"):
        checkpoints().load("7")


def test_only_what_is_asked_for_is_fetched(store, elsewhere):
    save(5, 10)
    cache = elsewhere()
    checkpoints().load_model()
    assert {path.name for path in cache.rglob("step-*/*") if path.suffix != ".json" or "files" in path.parts} >= {
        "model.safetensors", "state.json", "checksums.json",
    }  # fmt: skip
    assert not list((cache / "files").rglob("optimizer.safetensors"))
    assert not list((cache / "files").rglob("step-00000005"))
    checkpoints().load(parts=(MODEL, "optimizer"))
    assert list((cache / "files").rglob("optimizer.safetensors"))


def test_another_machine_averages_the_best_ones(store, elsewhere):
    save(5, 10, 15)
    checkpoints().rank_best([Best(10, "bleu", 2.0), Best(5, "bleu", 1.0)])
    elsewhere()
    assert checkpoints().prune(1) == []
    assert load_for_decoding(checkpoints(), "best:2").weights["w"].tolist() == [7.5] * 3


def test_pruning_removes_from_the_store(store, elsewhere):
    save(5, 10, 15)
    checkpoints().mark_best(5, "bleu", 1.0)
    elsewhere()
    assert checkpoints().prune(1) == [10]
    assert not any("step-00000010" in name for name in store.names())
    assert checkpoints().steps() == [5, 15]


def test_copies_of_what_another_machine_has_pruned_go_too(store, elsewhere, monkeypatch):
    save(5, 10, 15)
    here = local_path(RUN) / "checkpoints"
    own = here.parents[4]
    elsewhere()
    checkpoints().prune(1)
    monkeypatch.setenv("T2T_CACHE", str(own))
    save(20)
    assert sorted(path.name for path in here.glob("step-*")) == ["step-00000015", "step-00000020"]
    assert checkpoints().steps() == [15, 20]


def test_a_list_that_lags_behind_hides_no_latest_and_no_best(store, elsewhere, monkeypatch):
    save(5)
    listed = Store.find
    old = {folder: listed(Store(), folder) for folder in (f"{RUN}/checkpoints", f"{RUN}")}
    save(10, 15)
    checkpoints().mark_best(10, "bleu", 1.0)
    monkeypatch.setattr(Store, "find", lambda self, address: old.get(address, {}))
    elsewhere()
    assert checkpoints().load().step == 15
    assert checkpoints().load("best").step == 10
    assert checkpoints().load("10").step == 10
    checkpoints().mark_best(15, "bleu", 2.0)
    assert checkpoints().prune(1) == [5, 10]  # 10 is not listed yet
    assert checkpoints().load().step == 15


def test_pruning_waits_for_no_list(store, elsewhere, monkeypatch):
    monkeypatch.setattr(Store, "find", lambda self, address: {})
    save(5, 10, 15, 20)
    checkpoints().mark_best(5, "bleu", 1.0)
    checkpoints().mark_best(10, "bleu", 1.0, "a")
    assert checkpoints().steps() == [5, 10, 15, 20]
    assert checkpoints().prune(1) == [15]
    assert {name.split("/")[3][-2:] for name in store.names("b/run/checkpoints/step")} == {"05", "10", "20"}
    elsewhere()
    for step in (5, 20):
        assert checkpoints().load(step).step == step
    assert checkpoints().prune(1) == []  # 5 is the best, although no list shows it


def test_a_list_that_still_has_what_is_gone(store, elsewhere, monkeypatch, caplog):
    save(5, 10, 15)
    old = Store().find(f"{RUN}/checkpoints")
    checkpoints().prune(1)
    monkeypatch.setattr(Store, "find", lambda self, address: old)
    elsewhere()
    assert checkpoints().load().step == 15
    checkpoints().prune(1)


def test_a_save_that_fails_leaves_the_one_before(store, elsewhere, monkeypatch):
    save(5)
    with failing_uploads(monkeypatch, "checksums.json"), pytest.raises(MachineError):
        save(10)
    elsewhere()
    assert (checkpoints().steps(), checkpoints().load().step) == ([5], 5)
    save(10)
    assert checkpoints().load().step == 10


def save_and_point(step):
    """Writes a checkpoint, then all pointers to it: the latest, the best two and the ranking."""
    save(step)
    checkpoints().mark_best(step, "bleu", 1.0)
    checkpoints().mark_best(step, "bleu", 1.0, "a")
    checkpoints().rank_best([Best(step, "bleu", 1.0)])


def pointed():
    """Returns the steps of all pointers."""
    opened = checkpoints()
    ranking = [one.step for one in opened.ranking()]
    return opened.latest(), *(one.step if (one := opened.best(name)) else None for name in ("", "a")), *ranking


@pytest.mark.parametrize("name", ["latest.json", "best.json", "best.a.json", "ranking.json"])
def test_a_pointer_that_was_not_uploaded_is_uploaded_later(store, elsewhere, monkeypatch, name):
    save_and_point(5)
    cache = local_path(RUN).parents[3]
    with failing_uploads(monkeypatch, name), pytest.raises(MachineError):
        save_and_point(10)
    here = pointed()
    assert here.count(10) == ["latest.json", "best.json", "best.a.json", "ranking.json"].index(name) + 1
    elsewhere()
    assert pointed().count(10) == here.count(10) - 1
    monkeypatch.setenv("T2T_CACHE", str(cache))
    checkpoints().publish_pointers()
    elsewhere()
    assert pointed() == here


def test_a_pointer_that_was_not_uploaded_gives_way_to_a_later_one(store, elsewhere, monkeypatch):
    save_and_point(5)
    cache = local_path(RUN).parents[3]
    with monkeypatch.context() as patch:
        patch.setattr("t2t.checkpoints.pointer.publish", lambda *paths: None)
        save_and_point(10)
    assert pointed() == (10, 10, 10, 10)
    elsewhere()
    save_and_point(15)
    monkeypatch.setenv("T2T_CACHE", str(cache))
    checkpoints().publish_pointers()
    for _ in range(2):
        assert pointed() == (15, 15, 15, 15)
        elsewhere()


def test_a_damaged_copy_is_fetched_again(store):
    save(5)
    file = local_path(RUN) / "checkpoints/step-00000005/model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"x")
    assert checkpoints().load().model["w"][0] == 5
    assert file.read_bytes() == content


@pytest.fixture
def before_get(monkeypatch):
    """A list of functions that are called with the address of each object before it is fetched."""
    called, get = [], Store._get

    def getting(self, address, file):
        for function in called:
            function(address)
        return get(self, address, file)

    monkeypatch.setattr(Store, "_get", getting)
    return called


@pytest.mark.parametrize("has_copies", [True, False])
def test_if_the_store_has_a_damaged_latest_the_one_before_is_loaded(store, elsewhere, caplog, before_get, has_copies):
    save(5, 10)
    file = "/b/run/checkpoints/step-00000010/model.safetensors"
    store.files.pipe(file, store.files.cat(file)[:-1] + b"x")
    if not has_copies:
        elsewhere()
    fetched = []
    before_get.append(fetched.append)
    assert checkpoints().load().step == 5
    assert "step-00000010 is damaged: model.safetensors is not what was written" in caplog.text
    assert "continuing from step 5 instead" in caplog.text
    assert fetched.count(f"memory:/{file}") == 2
    with pytest.raises(UserError, match=r"step-00000010 is damaged: model.safetensors is not what was written"):
        checkpoints().load(10)


def test_a_checkpoint_that_is_removed_from_the_store_while_it_is_read_is_not_damaged(
    store, elsewhere, caplog, before_get
):
    def remove(address):
        if address.endswith("step-00000010/model.safetensors"):
            before_get.clear()
            store.files.rm("/b/run/checkpoints/step-00000010", recursive=True)

    save(5, 10)
    elsewhere()
    before_get.append(remove)
    assert checkpoints().load().step == 5
    assert "is damaged" not in caplog.text


def test_the_record_and_the_vocabularies_of_a_run(store, elsewhere):
    create()
    elsewhere()
    assert RunDir.exists(RUN)
    run = RunDir.open(RUN)
    assert run.record.problem == "p"
    assert {name: encoder.vocab_size for name, encoder in run.encoders().items()} == {"inputs": 5, "targets": 5}
    assert not run.has_checkpoints
    save(5)
    assert run.has_checkpoints
    with pytest.raises(UserError, match=r"a run has begun there"):
        create()
    with pytest.raises(UserError, match=r"no run in .*b/nothing; train one"):
        RunDir.open("memory://b/nothing")


def test_figures_go_on_elsewhere(store, elsewhere):
    run = create()
    with lock_run(RUN):
        run.append_metrics(1, {"loss": 3.0})
        run.publish_figures()
    elsewhere()
    with lock_run(RUN):
        run = RunDir.open(RUN)
        run.append_metrics(2, {"loss": 2.0})
        run.publish_figures()
    elsewhere()
    assert [line["step"] for line in RunDir.open(RUN).metrics()] == [1, 2]


def test_outputs_that_are_kept_go_on_elsewhere(store, elsewhere):
    run = create()
    with lock_run(RUN):
        add_dev_outputs(run.dev_outputs_file, [DevOutputs.pick(1, "", ["a"], ["b"], ["c"])])
        run.publish_figures()
    elsewhere()
    with lock_run(RUN):
        run = RunDir.open(RUN)
        add_dev_outputs(run.dev_outputs_file, [DevOutputs.pick(2, "", ["a"], ["b"], ["d"])])
        run.publish_figures()
    elsewhere()
    assert [one.outputs for one in read_dev_outputs(RunDir.open(RUN).dev_outputs_file)] == [("c",), ("d",)]


def test_a_run_without_checkpoints_is_begun_again(store, elsewhere):
    run = create()
    with lock_run(RUN):
        (run.path / "tracking.json").touch()
        (run.path / "events" / "train").mkdir(parents=True)
        (run.path / "events" / "train" / "events.out.tfevents.1").touch()
        run.publish_figures()
    elsewhere()
    assert not RunDir.has_begun(RUN)
    create()
    assert names_in(local_path(RUN)) == {"vocab", "run.json"}
    assert not store.names("b/run/events") + store.names("b/run/tracking.json")
    save(5)
    assert RunDir.has_begun(RUN)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_run_whose_first_checkpoint_was_partly_uploaded_is_begun_again(store, elsewhere, monkeypatch, is_elsewhere):
    create()
    with failing_uploads(monkeypatch, "checksums.json"), pytest.raises(MachineError):
        save(5)
    assert store.names("b/run/checkpoints/step-00000005")
    if is_elsewhere:
        elsewhere()
    assert not RunDir.open(RUN).has_checkpoints
    assert not RunDir.has_begun(RUN)
    create()
    save(7)
    assert checkpoints().steps() == [7]


def test_two_machines_do_not_train_one_run(store, elsewhere):
    with lock_run(RUN):
        first = elsewhere()
        refused = r"--output_dir=.*run: process \d+ on .* is training there; wait for it"
        with pytest.raises(UserError, match=refused), lock_run(RUN):
            pass
        assert first.exists()


def test_one_that_was_replaced_writes_nothing_more(store, tmp_path, monkeypatch):
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "cache"))
    with lock_run(RUN):
        save(5)
        store.files.pipe("/b/run/lock", b'{"nonce": "another", "pid": 7, "host": "far"}')
        with pytest.raises(
            MachineError, match=r"run/lock: process 7 on far has taken over, since the renewals of this"
        ):
            save(10)
    assert checkpoints().steps() == [5]
    assert store.files.cat("/b/run/lock").startswith(b'{"nonce": "another"')
