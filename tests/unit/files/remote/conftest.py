import pytest

from tests.stores import memory_store


@pytest.fixture
def store(tmp_path, monkeypatch):
    with memory_store(monkeypatch, tmp_path / "cache") as opened:
        yield opened
