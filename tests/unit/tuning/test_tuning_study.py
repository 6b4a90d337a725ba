"""A study in its storage: ownership and number of trials, choice of hparams, early stopping, commands, the journal."""

import dataclasses
import sqlite3
import sys
from pathlib import Path

import pytest

from t2t.errors import MachineError
from t2t.files.atomic import open_locked
from t2t.hparams.ranges import RangedHParams
from t2t.tuning.settings import Objective, TuneSettings, absolute_storage
from t2t.tuning.study import JournalLock, Study, open_journal
from t2t.tuning.tuner import TrialCommand
from tests.errors import refused
from tests.waiting import join_all, start_thread

BLEU = Objective("bleu", True)


@pytest.fixture
def ranged():
    found = RangedHParams()
    found.set_float("learning_rate", 0.001, 1.0, scale=found.LOG_SCALE)
    found.set_discrete("num_heads", [1, 2, 4])
    return found


@pytest.fixture
def open_study(tmp_path, ranged):
    def opened(folder="study", seed=0, identity="one", hparams="", objective=BLEU, study_class=Study, **settings):
        chosen = TuneSettings(**{"trials": 4, **settings})
        first = {"learning_rate": 0.01, "num_heads": 2}
        same = {"problem": identity, "hparams": hparams}
        return study_class(tmp_path / folder, chosen, objective, ranged, same, first, seed, 50)

    return opened


def score(values):
    return 10 * values["learning_rate"]


def carry_out_one(study, curve):
    """Begins a trial, and reports its values by update until it is stopped; returns it, its hparams, and whether."""
    trial, values = study.begin()
    seen, is_stopped = {}, False
    for update, value in (curve(values) if callable(curve) else curve).items():
        seen[update] = value
        if is_stopped := study.report(trial, seen):
            break
    study.end(trial, "stopped" if is_stopped else "finished", seen)
    return trial, values, is_stopped


def carry_out(study, curve=lambda values: {50: score(values)}):
    """Carries out all trials that are left; returns their hparams."""
    done = sum(one.state != "training" for one in study.reports())
    found = [carry_out_one(study, curve)[1] for _ in range(study.last - done)]
    assert study.begin() is None
    return found


def test_there_are_as_many_trials_as_asked_for_and_the_first_has_the_sets_values(open_study):
    found = carry_out(open_study())
    assert len(found) == 4
    assert found[0] == {"learning_rate": 0.01, "num_heads": 2}
    assert open_study().begin() is None
    assert len(carry_out(open_study(trials=6))) == 2


@pytest.mark.parametrize("is_killed", [False, True])
def test_choices_are_a_function_of_seed_and_history_also_after_a_kill_while_choosing(open_study, is_killed):
    whole, parts = carry_out(open_study("a", trials=6)), []
    for trials in range(1, 7):
        if is_killed:
            open_study("b", trials=trials)._study.ask()  # and no more
        parts += carry_out(open_study("b", trials=trials))
    assert parts == whole
    assert carry_out(open_study("c", trials=6, seed=1))[1:] != whole[1:]


def test_the_sampler_goes_to_where_trials_were_good(open_study):
    """After ten random trials, most of the last ten are nearer to the best rate than random ones."""
    found = carry_out(open_study(trials=25, startup_trials=10))
    assert sum(values["learning_rate"] > 0.1 for values in found[15:]) >= 7  # a third of the range by chance


def test_the_grid_ends_with_its_last_combination(tmp_path):
    ranged = RangedHParams()
    ranged.set_int("num_heads", 1, 3)
    study = Study(tmp_path / "s", TuneSettings(sampler="grid"), BLEU, ranged, {}, {}, 0, 50)
    assert sorted(values["num_heads"] for values in carry_out(study, {50: 1.0})) == [1, 2, 3]


# === Ends of trials ===
def test_a_trial_below_the_median_is_stopped_and_stays_so(open_study):
    study = open_study(trials=6, startup_trials=2)
    for value in (5.0, 6.0, 7.0):
        assert not carry_out_one(study, {10: value, 50: value})[2]
    good, _ = study.begin()
    assert not study.report(good, {10: 6.5})
    bad, _ = study.begin()
    assert study.report(bad, {10: 5.5, 20: 9.0})  # the later value came too late
    assert open_study(trials=6).report(bad, {10: 5.5, 20: 9.0})
    study.end(bad, "stopped", {10: 5.5})
    states = {one.number: (one.state, one.value) for one in study.reports()}
    assert states[bad.number] == ("stopped", 5.5)
    assert states[good.number] == ("training", 6.5)


def test_what_a_kill_interrupted_is_decided_again_and_what_later_trials_reach_stops_nothing(open_study):
    study = open_study(trials=5, startup_trials=2)
    first, _ = study.begin()
    assert not study.report(first, {10: 1.0})
    for value in (5.0, 6.0, 7.0):
        carry_out_one(study, {10: value})
    trial, _ = study.begin()
    trial.should_prune = sys.exit  # of this object, which no other tuner sees
    with pytest.raises(SystemExit):
        study.report(trial, {10: 4.0})
    again = open_study(trials=5, startup_trials=2)
    assert not again.report(first, {10: 1.0})
    assert [one.number for one, _ in again.interrupted()] == [first.number, trial.number]
    assert again.report(again.interrupted()[1][0], {10: 4.0, 20: 9.0})
    assert max(again.reports(), key=lambda one: one.number).updates == 10


def test_hyperband_stops_trials_too(open_study):
    study = open_study(trials=30, pruner="hyperband", startup_trials=1)
    carry_out(study, lambda values: {update: score(values) + update / 1000 for update in (5, 15, 45, 50)})
    assert 0 < sum(one.state == "stopped" for one in study.reports()) < 30


def test_lower_may_be_better_and_a_trial_without_a_finite_value_has_failed_and_comes_last(open_study):
    study = open_study(objective=Objective("wer", False))
    carry_out(study)
    values = [one.value for one in study.reports()]
    assert values == sorted(values)
    study = open_study("other")
    for value in (float("nan"), 1.0):
        carry_out_one(study, {10: value})
    assert [(one.number, one.state) for one in study.reports()] == [(1, "finished"), (0, "failed")]


def test_trials_that_nobody_ended_go_on(open_study):
    study = open_study()
    trial, values = study.begin()
    study.report(trial, {10: 1.0})
    ((again, same),) = open_study().interrupted()
    assert (again.number, same) == (trial.number, values)
    assert not open_study().report(again, {10: 1.0, 20: 2.0})  # the first one is known already
    study.end(again, "finished", {10: 1.0, 20: 2.0})
    assert open_study().interrupted() == []


# === The folder of a study, and a database ===
@pytest.mark.parametrize("is_named_by_folder", [False, True])  # as by earlier versions
def test_a_study_in_a_renamed_folder_is_the_same(open_study, tmp_path, is_named_by_folder):
    class Earlier(Study):
        def _name_in(self, storage):
            return self.folder.name

    found = carry_out(open_study("before", study_class=Earlier if is_named_by_folder else Study))
    (tmp_path / "before").rename(tmp_path / "after")
    study = open_study("after")
    assert [one.hparams for one in sorted(study.reports(), key=lambda one: one.number)] == found
    assert study.begin() is None


def test_a_damaged_journal_is_named_and_one_that_cannot_be_read_is_no_mistake_of_the_user(open_study, tmp_path):
    open_study()
    journal = tmp_path / "study/study.journal"
    journal.write_text("{\n" + journal.read_text())
    with refused(journal, "--study"):
        open_study()
    (tmp_path / "other/study.journal").mkdir(parents=True)
    with refused(tmp_path / "other", by=MachineError):
        open_study("other")


@pytest.mark.parametrize("begun", ["alpha=1, sizes=[1, 2],", "alpha=1,sizes=[1, 2]"])
def test_another_study_in_the_folder_is_refused_by_what_differs(open_study, begun):
    """Spaces between overrides make no other study; what a study does not say of itself is accepted once."""
    open_study(hparams=begun)
    for same in ("alpha=1,sizes=[1, 2]", " alpha=1,  sizes=[1, 2], "):
        open_study(hparams=same).check_identity({"eval_steps": 5})
    with refused("problem", "two", "one"):
        open_study(hparams=begun, identity="two")
    with refused("hparams", "alpha=2,sizes=[1,", "alpha=1,sizes=[1,"):
        open_study(hparams="alpha=2, sizes=[1, 2]")
    with refused("eval_steps", 100, 5):
        open_study(hparams=begun).check_identity({"eval_steps": 100})


@pytest.mark.parametrize(("url", "kept"), [
    ("sqlite:///a/b.db?timeout=9", "sqlite:///{here}/a/b.db?timeout=9"),
    ("sqlite+pysqlite:///b", "sqlite+pysqlite:///{here}/b"),
    *((one, one) for one in ("", "sqlite:////a/b.db", "sqlite:///:memory:", "sqlite://", "postgresql://host/b")),
])  # fmt: skip
def test_a_database_in_a_file_is_that_of_the_folder_in_which_the_study_began(url, kept):
    assert absolute_storage(url) == kept.format(here=Path.cwd())


def test_two_machines_share_a_database(open_study, tmp_path):
    """Each machine has its own folder; trial numbers are unique, and each machine resumes only its own trials."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    one, other = (open_study(folder, storage=url, study_name="both") for folder in ("a", "b"))
    begun = [study.begin()[0].number for study in (one, other, one, other)]
    assert begun == [0, 1, 2, 3]
    assert one.begin() is None
    assert [trial.number for trial, _ in open_study("a", storage=url, study_name="both").interrupted()] == [0, 2]
    assert {one.folder for one in other.reports()} == {
        str(tmp_path / f"{folder}/trial_000{number}") for folder, number in ("a0", "b1", "a2", "b3")
    }
    rows = sqlite3.connect(tmp_path / "study.db").execute("select count(*) from trials").fetchone()
    assert rows == (4,)


def heads(ranged):
    ranged.set_discrete("num_heads", [1, 2, 4, 8])
    return ranged


@pytest.fixture
def open_grid(tmp_path):
    """Opens a study of the grid of four numbers of heads, in a database that machines share."""
    ranged = heads(RangedHParams())
    shared = TuneSettings(sampler="grid", storage=f"sqlite:///{tmp_path / 'study.db'}", study_name="both")

    def opened(folder, trials=4):
        settings = dataclasses.replace(shared, trials=trials)
        return Study(tmp_path / folder, settings, BLEU, ranged, {}, {}, 0, 50)

    return opened


def begin_together(one, other):
    """One machine begins a trial, and another once the first has counted the trials; returns what they began."""
    ask, found = one._study.ask, []
    one._study.ask = lambda: (found.append(other.begin()), ask())[1]
    found.append(one.begin())
    one._study.ask = ask
    return [(trial.number, values["num_heads"]) for trial, values in filter(None, found)]


def begin_all(study):
    """Begins all trials that are left; returns the number and heads of each."""
    return [(trial.number, values["num_heads"]) for trial, values in iter(study.begin, None)]


@pytest.mark.parametrize("trials", [4, 1])
def test_machines_that_begin_together_share_the_grid_and_begin_no_trial_too_many(open_grid, trials):
    """The number that a machine took in vain is used when more trials are asked for."""
    one, other = open_grid("a", trials), open_grid("b", trials)
    begun = begin_together(one, other)
    assert len(begun) == len(one.reports()) == min(trials, 2)
    begun += begin_all(open_grid("a"))
    assert sorted(number for number, _ in begun) == [0, 1, 2, 3]
    assert sorted(one for _, one in begun) == [1, 2, 4, 8]


def test_a_choice_that_a_kill_interrupted_is_made_by_its_own_machine(open_grid):
    class Killing(RangedHParams):
        def choose(self, draw):
            raise KeyboardInterrupt

    study = open_grid("a")
    study.ranged = heads(Killing())
    with pytest.raises(KeyboardInterrupt):
        study.begin()
    assert open_grid("a").interrupted() == []
    others, own = begin_all(open_grid("b")), begin_all(open_grid("a"))
    assert [number for number, _ in others] == [1, 2, 3]
    assert [number for number, _ in own] == [0]
    assert sorted(one for _, one in others + own) == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"storage": "study.db"}, ["--storage=study.db"]),
        ({"study_name": "a"}, ["--study_name=a"]),
        ({"storage": "nosuchdb://x/y"}, ["--storage"]),
        ({"storage": "oracle+cx_oracle://x/y"}, ["--storage", "cx_Oracle"]),  # a driver that nothing here installs
        ({"trials": 0}, ["trials=0", 1]),
        ({"sampler": "guess"}, ["guess", "tpe", "random", "grid"]),
    ],
)
def test_settings_that_cannot_work_are_one_line(open_study, settings, about):
    with refused(*about):
        open_study(**settings)


def test_settings_say_what_they_are():
    for field in dataclasses.fields(TuneSettings):
        assert field.metadata["doc"].endswith(".")


# === Its journal after crashes and full disks ===
@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.journal"


def names(path):
    return [study.study_name for study in open_journal(path).get_all_studies()]


@pytest.mark.parametrize("is_locked", [False, True])  # by a killed process of an earlier version
def test_an_incomplete_last_line_is_cut_off_before_the_next_and_an_old_lock_locks_nothing(path, is_locked):
    if is_locked:
        path.with_name("study.journal.lock").symlink_to(path)
    open_journal(path).create_new_study([1], "one")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert names(path) == ["one"]
    open_journal(path).create_new_study([1], "two")
    assert path.read_bytes().startswith(whole)
    assert names(path) == ["one", "two"]


def test_a_writer_waits_for_another(path):
    order, other, lock = [], open_locked(path), JournalLock(path)

    def write():
        assert lock.acquire()
        order.append("second")
        lock.release()

    writer = start_thread(write)
    order.append("first")
    other.close()
    join_all(writer)
    assert order == ["first", "second"]
    open_locked(path).close()


def test_a_journal_that_cannot_be_written_is_one_line(path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    journal = open_journal(path)
    with monkeypatch.context() as patch:
        patch.setattr("t2t.tuning.study.cut_torn_line", full)
        with refused(path, by=MachineError):
            journal.create_new_study([1], "one")
    journal.create_new_study([1], "one")
    assert names(path) == ["one"]


# === The command of a trial ===
def test_searched_values_come_before_the_others_and_drop_what_they_leave_unread():
    """As ranges of hparams that a value leaves unread are not searched."""
    others = "positions=words,read_next_word=true,num_heads=2"
    command = TrialCommand(("--problem=p",), others, "transformer_tiny", 3, check=lambda overrides: None)
    assert command.overrides_of({"num_heads": 4}) == "positions=words,read_next_word=true,num_heads=4"
    assert command.overrides_of({"positions": "rotary"}) == "num_heads=2,positions=rotary"
    assert command.arguments_of({"positions": "none"}, 5) == [
        "--problem=p", "--hparams=num_heads=2,positions=none", "--random_seed=5",
    ]  # fmt: skip
