"""Decoded files in an object store: uploaded whole, and not decoded again if an upload failed."""

from t2t.errors import MachineError
from t2t.files.output import open_output
from t2t.files.paths import local_path
from tests.errors import refused


def test_a_file_that_could_not_be_sent_is_resumed(store):
    path = str(local_path("memory://b/out/decoded"))
    store.failing.add("put")
    with open_output(path, "job") as output:
        output.write(b"one\ntwo\n", 2, {})
        with refused(by=MachineError):
            output.finish()
    store.failing.clear()
    assert store.names() == []
    with open_output(path, "job") as output:
        assert output.lines == 2
        output.finish()
    assert store.files.cat("/b/out/decoded") == b"one\ntwo\n"
    assert [one.name for one in local_path("memory://b/out").iterdir()] == ["decoded"]
