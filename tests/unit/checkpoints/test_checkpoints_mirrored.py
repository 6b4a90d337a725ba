"""Checkpoints and runs in an object store."""

import contextlib

import numpy as np
import pytest

from t2t.checkpoints.averaging import load_for_decoding
from t2t.checkpoints.checkpoint import MODEL
from t2t.checkpoints.dev_outputs import DevOutputs, add_dev_outputs, read_dev_outputs
from t2t.checkpoints.layout import Best
from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import MachineError
from t2t.files.paths import local_path
from t2t.files.remote import agent
from t2t.files.remote.failures import UNANSWERED
from t2t.files.remote.mirror import names_in
from tests.errors import refused
from tests.stores import memory_store
from tests.unit.checkpoints.test_checkpoints_run_dir import ENCODERS, record

RUN = "memory://b/run"
GONE = {"error": UNANSWERED, "text": "gone", "address": RUN}


@pytest.fixture
def store(tmp_path, monkeypatch):
    with memory_store(monkeypatch, tmp_path / "cache") as opened:
        yield opened


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Returns a function that makes this process act as another machine: a new one, or that of a cache."""
    made = []

    def go(cache=None):
        made.append(cache or tmp_path / f"machine {len(made)}")
        monkeypatch.setenv("T2T_CACHE", str(made[-1]))
        return made[-1]

    return go


def cache():
    """Returns the cache of the machine that this process acts as."""
    return local_path(RUN).parents[3]


def list_only(store, listed):
    """Has lists of the store lag behind: each is the one of that address in `listed`, or empty."""
    store.intercept = lambda message: (
        {"result": listed.get(message["args"][0], {})} if message["op"] == "find" else None
    )


def listed(store, address):
    return agent.answer(store.store, store.owners, {"op": "find", "args": [address]})["result"]


def checkpoints():
    return CheckpointStore(local_path(RUN) / "checkpoints")


def save(*steps):
    for step in steps:
        checkpoints().save(step, model={"w": np.full(3, step, np.float32)}, optimizer={"m": np.zeros(3)})


def create():
    return RunDir.create(RUN, record(), ENCODERS)


def test_another_machine_loads_what_was_saved(store, elsewhere):
    save(5, 10)
    checkpoints().mark_best(5, "bleu", 1.0)
    checkpoints().save_named("averaged", 10, model={"w": np.ones(3)})
    elsewhere()
    assert (checkpoints().steps(), checkpoints().names(), checkpoints().latest()) == ([5, 10], ["averaged"], 10)
    for which, step in {"latest": 10, "best": 5, "5": 5, "averaged": 10, f"{RUN}/checkpoints/step-00000005": 5}.items():
        assert checkpoints().load(which).step == step
    assert CheckpointStore(local_path("memory://b/other")).load(RUN).step == 10
    with refused("'7'", 5, 10, "averaged"):
        checkpoints().load("7")


def test_only_what_is_asked_for_is_fetched_and_what_is_damaged_again(store, elsewhere):
    save(5, 10)
    elsewhere()
    store.requests.clear()
    checkpoints().load_model()
    fetched = {address.partition("/checkpoints/")[2] for address in store.transfers("get", "/step-")}
    assert fetched == {f"step-00000010/{name}" for name in ("model.safetensors", "state.json", "checksums.json")}
    checkpoints().load(parts=(MODEL, "optimizer"))
    assert store.transfers("get", "optimizer.safetensors")
    file = local_path(RUN) / "checkpoints/step-00000010/model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"x")  # a damaged copy is fetched again
    assert checkpoints().load().model["w"][0] == 10
    assert file.read_bytes() == content


def test_another_machine_averages_the_best_ones_and_prunes_the_store(store, elsewhere):
    save(5, 10, 15, 20)
    checkpoints().rank_best([Best(10, "bleu", 2.0), Best(5, "bleu", 1.0)])
    elsewhere()
    assert load_for_decoding(checkpoints(), "best:2").weights["w"].tolist() == [7.5] * 3
    assert checkpoints().prune(1) == [15]
    assert not any("step-00000015" in name for name in store.names())
    assert checkpoints().steps() == [5, 10, 20]


def test_copies_of_what_another_machine_has_pruned_go_too(store, elsewhere):
    save(5, 10, 15)
    own, here = cache(), local_path(RUN) / "checkpoints"
    elsewhere()
    checkpoints().prune(1)
    elsewhere(own)
    save(20)
    assert sorted(path.name for path in here.glob("step-*")) == ["step-00000015", "step-00000020"]
    assert checkpoints().steps() == [15, 20]


def test_a_list_that_lags_behind_hides_no_latest_and_no_best(store, elsewhere):
    save(5)
    old = {folder: listed(store, folder) for folder in (f"{RUN}/checkpoints", RUN)}
    save(10, 15)
    checkpoints().mark_best(10, "bleu", 1.0)
    list_only(store, old)
    elsewhere()
    assert [checkpoints().load(which).step for which in ("latest", "best", "10")] == [15, 10, 10]
    checkpoints().mark_best(15, "bleu", 2.0)
    assert checkpoints().prune(1) == [5, 10]  # 10 is not listed yet
    assert checkpoints().load().step == 15


def test_pruning_waits_for_no_list(store, elsewhere):
    list_only(store, {})
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


def test_a_list_that_still_has_what_is_gone_and_a_checkpoint_that_goes_while_it_is_read(store, elsewhere, caplog):
    def remove(message):
        if message["op"] == "get" and any("step-00000020/model" in address for address, _ in message["args"][0]):
            store.intercept = lambda message: None
            store.files.rm("/b/run/checkpoints/step-00000020", recursive=True)

    save(5, 10, 15)
    old = {f"{RUN}/checkpoints": listed(store, f"{RUN}/checkpoints")}
    checkpoints().prune(1)
    list_only(store, old)
    elsewhere()
    assert checkpoints().load().step == 15
    checkpoints().prune(1)
    store.intercept = lambda message: None
    save(20)
    elsewhere()
    store.intercept = remove
    assert checkpoints().load().step == 15
    assert "is damaged" not in caplog.text


def fail_uploads(store, *names):
    """Has uploads of files of some names fail."""

    def fail(message):
        sent = {pair[1].rpartition("/")[2] for pair in message["args"][0]} if message["op"] == "put" else set()
        return dict(GONE) if sent & {*names} else None

    store.intercept = fail


def test_a_save_that_fails_leaves_the_one_before(store, elsewhere):
    save(5)
    fail_uploads(store, "checksums.json")
    with refused(by=MachineError):
        save(10)
    fail_uploads(store)
    elsewhere()
    assert (checkpoints().steps(), checkpoints().load().step) == ([5], 5)
    save(10)
    assert checkpoints().load().step == 10


POINTERS = {
    "latest.json": save,
    "best.json": lambda step: checkpoints().mark_best(step, "bleu", 1.0),
    "best.a.json": lambda step: checkpoints().mark_best(step, "bleu", 1.0, "a"),
    "ranking.json": lambda step: checkpoints().rank_best([Best(step, "bleu", 1.0)]),
}
"""What writes each pointer; the first writes the checkpoint, too."""


def save_and_point(step, failing=()):
    """Writes a checkpoint and all pointers to it; the upload of those in `failing` fails."""
    for name, point in POINTERS.items():
        with refused(by=MachineError) if name in failing else contextlib.nullcontext():
            point(step)


def pointed():
    """Returns the steps of all pointers."""
    opened = checkpoints()
    ranking = [one.step for one in opened.ranking()]
    return [opened.latest(), *(one.step if (one := opened.best(name)) else None for name in ("", "a")), *ranking]


@pytest.mark.parametrize(
    ("names", "has_later"), [*(([name], False) for name in POINTERS), (list(POINTERS), False), (list(POINTERS), True)]
)
def test_a_pointer_that_was_not_uploaded_is_uploaded_later_or_gives_way_to_a_later_one(
    store, elsewhere, names, has_later
):
    save_and_point(5)
    own = cache()
    fail_uploads(store, *names)
    save_and_point(10, failing=names)
    fail_uploads(store)
    assert pointed() == [10] * 4
    elsewhere()
    assert pointed() == [5 if name in names else 10 for name in POINTERS]
    if has_later:
        save_and_point(15)
    elsewhere(own)
    checkpoints().publish_pointers()
    for _ in range(2):
        assert pointed() == [15 if has_later else 10] * 4
        elsewhere()


@pytest.mark.parametrize("has_copies", [True, False])
def test_if_the_store_has_a_damaged_latest_the_one_before_is_loaded(store, elsewhere, caplog, has_copies):
    save(5, 10)
    file = "/b/run/checkpoints/step-00000010/model.safetensors"
    store.files.pipe(file, store.files.cat(file)[:-1] + b"x")
    if not has_copies:
        elsewhere()
    store.requests.clear()
    assert checkpoints().load().step == 5
    assert all(word in caplog.text for word in ("step-00000010", "model.safetensors", "step 5"))
    assert store.transfers("get").count(f"memory:/{file}") == 2
    with refused("step-00000010", "model.safetensors"):
        checkpoints().load(10)


def test_the_record_and_the_vocabularies_of_a_run(store, elsewhere):
    create()
    elsewhere()
    assert RunDir.exists(RUN)
    run = RunDir.open(RUN)
    assert run.record.problem == record().problem
    assert {name: one.fingerprint for name, one in run.encoders().items()} == {
        name: one.fingerprint for name, one in ENCODERS.items()
    }
    assert not run.has_checkpoints
    save(5)
    assert run.has_checkpoints
    with refused("--output_dir"):
        create()
    with refused("b/nothing"):
        RunDir.open("memory://b/nothing")


def test_figures_and_outputs_that_are_kept_go_on_elsewhere(store, elsewhere):
    create()
    for step in (1, 2):
        with lock_run(RUN):
            run = RunDir.open(RUN)
            run.append_metrics(step, {"loss": 3.0})
            add_dev_outputs(run.dev_outputs_file, [DevOutputs.pick(step, "", ["a"], ["b"], [f"output {step}"])])
            run.publish_figures()
        elsewhere()
    run = RunDir.open(RUN)
    assert [line["step"] for line in run.metrics()] == [1, 2]
    assert [one.outputs for one in read_dev_outputs(run.dev_outputs_file)] == [("output 1",), ("output 2",)]


def test_a_run_without_checkpoints_is_begun_again(store, elsewhere):
    run = create()
    with lock_run(RUN):
        (run.path / "tracking.json").touch()
        (run.path / "events" / "train").mkdir(parents=True)
        (run.path / "events" / "train" / "events.out.tfevents.1").touch()
        run.publish_figures()
    elsewhere()
    assert not RunDir.open(RUN).can_resume
    create()
    assert names_in(local_path(RUN)) == {"vocab", "run.json"}
    assert not store.names("b/run/events") + store.names("b/run/tracking.json")
    save(5)
    assert RunDir.open(RUN).can_resume


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_run_whose_first_checkpoint_was_partly_uploaded_is_begun_again(store, elsewhere, is_elsewhere):
    create()
    fail_uploads(store, "checksums.json")
    with refused(by=MachineError):
        save(5)
    fail_uploads(store)
    assert store.names("b/run/checkpoints/step-00000005")
    if is_elsewhere:
        elsewhere()
    assert not RunDir.open(RUN).has_checkpoints
    assert not RunDir.open(RUN).can_resume
    create()
    save(7)
    assert checkpoints().steps() == [7]


def test_two_machines_do_not_train_one_run_and_one_that_was_replaced_writes_nothing_more(store, elsewhere):
    own = cache()
    with lock_run(RUN):
        first = elsewhere()
        with refused("--output_dir"), lock_run(RUN):
            pass
        assert first.exists()
        elsewhere(own)
        save(5)
        store.files.pipe("/b/run/lock", b'{"nonce": "another", "pid": 7, "host": "far"}')
        with refused("run/lock", 7, "far", by=MachineError):
            save(10)
    assert checkpoints().steps() == [5]
    assert store.files.cat("/b/run/lock").startswith(b'{"nonce": "another"')
