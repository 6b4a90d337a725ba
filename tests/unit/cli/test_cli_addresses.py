"""Files in an object store that flags name."""

from pathlib import Path

import pytest
from absl import flags

from t2t.cli import exporter
from t2t.cli.addresses import check_addresses, mirror_files
from t2t.files.paths import address_of, named_files
from tests.in_process import refuses
from tests.stores import memory_store
from tests.unit.cli.test_cli_early import write_run


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
    check_addresses(values)
    mirror_files(values)
    return {name: values[name].value for name in given}


def test_several_vocabularies_are_fetched(store, tmp_path):
    store.files.pipe({"/b/x.spm": b"x", "/b/y.spm": b"y"})
    (tmp_path / "z.spm").write_bytes(b"z")
    asked = f"memory://b/x.spm, {tmp_path}/z.spm,memory://b/y.spm"
    paths = named_files(mirrored(vocab_file=asked)["vocab_file"])
    assert [path.read_bytes() for path in paths] == [b"x", b"z", b"y"]
    assert [address_of(path) for path in paths] == ["memory://b/x.spm", None, "memory://b/y.spm"]


def test_a_comma_in_another_file_is_part_of_its_name(store):
    store.files.pipe("/b/x,y.txt", b"text")
    (path,) = mirrored(decode_from_file="memory://b/x,y.txt").values()
    assert address_of(path) == "memory://b/x,y.txt"
    assert Path(path).read_text() == "text"


@pytest.mark.parametrize("name", ["decode_from_file", "decode_to_file", "param_file", "choice_file", "plot"])
def test_files_may_be_named_by_the_home_folder(name, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert mirrored(**{name: "~/a b,c"}) == {name: "/home/me/a b,c"}
    assert mirrored(vocab_file="~/x.spm,~/y.spm", tag_suffix="~") == {
        "vocab_file": "~/x.spm,~/y.spm",
        "tag_suffix": "~",
    }


def test_names_of_this_machine_stay_as_they_are(store):
    given = {"vocab_file": "x.spm,y.spm", "decode_from_file": "a,b", "train_source": "memory://b/x"}
    assert mirrored(**given) == given


def test_an_export_of_a_run_in_a_store_has_a_folder(store):
    write_run("memory://b/run")
    refuses(exporter, "--export_dir:", output_dir="memory://b/run")
