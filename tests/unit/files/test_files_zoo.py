"""Runs that are found by name: where they are looked for, what is refused, and that nothing is written to them."""

import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.cli import avg_all, datagen, exporter, importer, runs, server, shortlist, trainer
from t2t.errors import UnknownNameError
from t2t.files.atomic import made_folder
from t2t.files.paths import ZOO_IN_PACKAGE, local_path, to_record, zoo_in, zoo_runs
from tests.errors import refused
from tests.in_process import call, check_refused

NAME = "zoo:ende_numbers"


@pytest.fixture
def own(tmp_path):
    """Two zoos, of which the first hides a run of the package and one of the second."""
    for name in ("a/ende_numbers", "a/mine", "b/mine", "b/yours", "b/.hidden"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_the_first_folder_with_a_name_has_its_run_and_the_package_comes_last(own, monkeypatch):
    monkeypatch.setenv("T2T_ZOO", "")
    assert local_path(NAME) == ZOO_IN_PACKAGE / "ende_numbers"
    assert local_path(f"{NAME}/checkpoints") == ZOO_IN_PACKAGE / "ende_numbers/checkpoints"
    monkeypatch.setenv("T2T_ZOO", f"{own}/b")
    with zoo_in(""):
        assert local_path("zoo:mine") == own / "b/mine"
    with zoo_in(f"{own}/a, {own}/b"):
        found = {"ende_numbers": own / "a/ende_numbers", "mine": own / "a/mine", "yours": own / "b/yours"}
        assert {name: zoo_runs()[name] for name in found} == found
        assert ".hidden" not in zoo_runs()
    assert local_path(NAME) == ZOO_IN_PACKAGE / "ende_numbers"
    with zoo_in(str(own / "none")), refused("--zoo_dir", own / "none"):
        local_path(NAME)


def test_what_is_no_run_of_the_zoo_is_refused_with_near_names(monkeypatch):
    monkeypatch.delenv("T2T_ZOO", raising=False)
    with refused("zoo:ende_number", "ende_numbers", "--zoo_dir", by=UnknownNameError):
        RunDir.open("zoo:ende_number")
    for path in (f"{NAME}/../x", f"{NAME}//x"):
        with refused(path):
            local_path(path)


def test_records_name_a_run_of_the_package_wherever_it_is_installed(tmp_path):
    assert to_record(local_path(NAME) / "vocab") == f"{NAME}/vocab"
    assert to_record(ZOO_IN_PACKAGE) == str(ZOO_IN_PACKAGE)
    with zoo_in(str(tmp_path)):
        assert to_record(tmp_path / "mine") == str(tmp_path / "mine")


@pytest.mark.parametrize(("command", "flags", "about"), [
    (trainer, [f"--output_dir={NAME}"], f"--output_dir={NAME}"),
    (trainer, [f"--output_dir={NAME}", "--decode_interactive"], f"--output_dir={NAME}"),
    (trainer, ["--output_dir=zoo:new", "--problem=translate_ende_numbers"], "zoo:new"),
    (avg_all, [f"--output_dir={NAME}", "--n=1"], f"--output_dir={NAME}"),
    (shortlist, [f"--output_dir={NAME}"], f"--output_dir={NAME}"),
    (exporter, [f"--output_dir={NAME}", "--format=onnx"], "--export_dir"),
    (exporter, [f"--output_dir={NAME}", f"--export_dir={NAME}/export"], f"--export_dir={NAME}/export"),
    (datagen, ["--problem=translate_ende_numbers", f"--data_dir={NAME}"], f"--data_dir={NAME}"),
    (importer, ["--model_dir=some", "--vocab_file=some", "--output_dir=zoo:new"], "zoo:new"),
    (server, ["--output_dir=zoo:ende"], "zoo:ende ende_numbers"),
])  # fmt: skip
def test_commands_write_nothing_to_it(command, flags, about):
    before = {path: path.stat().st_mtime_ns for path in ZOO_IN_PACKAGE.rglob("*")}
    check_refused(command, *flags, about=about)
    assert {path: path.stat().st_mtime_ns for path in ZOO_IN_PACKAGE.rglob("*")} == before


@pytest.mark.parametrize("call_of", [
    lambda: made_folder(local_path(f"{NAME}/folder")).__enter__(),
    lambda: t2t.train(output_dir=NAME),
    lambda: t2t.generate_data("translate_ende_numbers", f"{NAME}/data"),
    lambda: t2t.learn_shortlist(NAME, "data"),
    lambda: t2t.tune("translate_ende_numbers", "transformer", "transformer_quickstart", f"{NAME}/study",
                     "transformer_quickstart_range", trials=1),
])  # fmt: skip
def test_functions_write_nothing_to_it(call_of):
    before = sorted(ZOO_IN_PACKAGE.rglob("*"))
    with refused(NAME):
        call_of()
    assert sorted(ZOO_IN_PACKAGE.rglob("*")) == before


def test_its_runs_are_listed(own):
    header, row = call(runs, "zoo:", format="tsv").out.splitlines()
    listed = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    assert (listed["run"], listed["state"], listed["problem"]) == (NAME, "finished", "translate_ende_numbers")
    printed = call(runs, "zoo:", zoo_dir=own / "b").out
    assert all(name in printed for name in (NAME, "zoo:mine", "zoo:yours"))
