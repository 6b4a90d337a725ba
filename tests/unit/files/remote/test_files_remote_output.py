"""Decoded files in an object store: uploaded whole, and not decoded again if an upload failed."""

import pytest

from t2t.errors import MachineError
from t2t.files.output import open_output
from t2t.files.paths import local_path
from t2t.files.remote.store import Store


def test_a_file_that_could_not_be_sent_is_resumed(store, monkeypatch):
    path = str(local_path("memory://b/out/decoded"))
    put = Store._put

    def gone(self, file, address):
        raise OSError("the store is gone")

    monkeypatch.setattr(Store, "_put", gone)
    with open_output(path, "job") as output:
        output.write(b"one\ntwo\n", 2, {})
        with pytest.raises(MachineError):
            output.finish()
    monkeypatch.setattr(Store, "_put", put)
    assert store.names() == []
    with open_output(path, "job") as output:
        assert output.lines == 2
        output.finish()
    assert store.files.cat("/b/out/decoded") == b"one\ntwo\n"
    assert [one.name for one in local_path("memory://b/out").iterdir()] == ["decoded"]
