"""Damaged files: whatever is done to a file of a run or of data, it is noticed before anything of it is used."""

import pytest

from tests.faults.damage import rows
from tests.faults.damaged import READERS, kind_of


def test_every_damage_to_every_file_is_noticed(tmp_path):
    found = rows(tmp_path)
    assert [failure for row in found for failure in row.failures] == []
    assert all(row.injected == row.survived > 0 for row in found)
    assert {row.fault.partition(": ")[2] for row in found} == set(READERS)


def test_a_new_kind_of_file_must_say_who_reads_it(tiny_run):
    """Of a run that was trained, and of its data."""
    for folder, place in ((tiny_run.output_dir, "run"), (tiny_run.data_dir, "data")):
        for file in folder.rglob("*"):
            if file.is_file():
                kind_of(f"{place}/{file.relative_to(folder).as_posix()}")
    with pytest.raises(LookupError, match=r"run/news.json: a new kind of file; say in READERS who reads it"):
        kind_of("run/news.json")
