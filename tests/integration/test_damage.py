"""Damaged files: whatever is done to a file, it is noticed before it is used."""

from tests.faults.damage import rows


def test_every_damage_to_every_file_is_noticed(tmp_path):
    failures = []
    found = rows(tmp_path, failures=failures)
    assert failures == []
    assert all(injected == survived for _, injected, survived in found)
