"""Untrusted folders: no code in them is executed, no file outside them is read, and nothing blocks on them."""

import io
import json
import os
import pickle
import shutil
import struct
import zipfile

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import _json_bytes
from t2t.checkpoints.run_dir import lock_run
from t2t.cli import avg_all, decoder
from t2t.cli import eval as eval_command
from t2t.errors import T2TError, UserError
from t2t.files.atomic import sha256_of
from t2t.problems.formats import archive
from t2t.problems.formats.archive import read_members
from t2t.runs.loading import load
from t2t.text.vocabulary_files import read_vocabulary
from tests.audit import audited, executed, outside, programs, unpickled
from tests.builders import edited
from tests.faults.damage import contents_of
from tests.faults.damaged import READERS, kind_of, make, resumed, trained_from

HOSTILE = (None, -1, 3, 1e400, "x", "../../etc/passwd", [], {}, [[{}]], {"x": [None]}, True)
"""Values that replace a valid one."""


@pytest.fixture
def tree(tmp_path):
    return make(tmp_path / "tree", "token")


@pytest.fixture
def evil(tmp_path):
    """An object that creates a folder when it is unpickled, and the folder's path."""

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    return Evil(), tmp_path / "executed"


def refuses(reader, tree, file):
    """Whether a reader raises an error that names the file; it must not block or read another file."""
    try:
        reader(tree)
    except UserError as error:
        return file.name in str(error) or str(error).startswith("no run in")
    return False


# === Outside ===


@pytest.mark.parametrize("what", ["link", "pipe"])
def test_no_file_leads_out_of_its_folder(tree, tmp_path, what):
    """Replaces each file in turn by a link to a copy elsewhere, or by a pipe that nobody writes to."""
    for name in contents_of(tree.folder):
        kind, file, copy = kind_of(name), tree.folder / name, tmp_path / "copy"
        if kind is None or name.startswith("out"):
            continue
        file.rename(copy)
        (file.symlink_to if what == "link" else lambda _, file=file: os.mkfifo(file))(copy)
        assert any(refuses(reader, tree, file) for reader in READERS[kind]), name
        file.unlink()
        copy.rename(file)


@pytest.mark.parametrize("name", ["run/vocab", "run/checkpoints", "run/checkpoints/step-00000004"])
def test_no_folder_of_a_run_leads_out_of_it(tree, tmp_path, name):
    shutil.move(tree.folder / name, tmp_path / "moved")
    (tree.folder / name).symlink_to(tmp_path / "moved")
    with pytest.raises(UserError, match=f"{name} is a link to outside"):
        resumed(tree)


@pytest.mark.parametrize("name", ["../../raw/dev.source", "/etc/passwd", "a/b", "..", "", ".hidden", 3, None])
def test_names_in_a_manifest_are_plain(tree, name):
    def of_shard(plain):
        return plain["splits"]["dev"]["shards"][0]["values"]["inputs"]

    entries = (of_shard, lambda plain: plain["splits"]["dev"]["texts"]["inputs"], lambda p: p["vocabularies"]["inputs"])
    for entry in entries:
        with edited(tree.folder / "data/text2text_files/manifest.json") as plain:
            place = entry(plain)
            key = "file" if "file" in place else "name"
            before, place[key] = place[key], name
        with pytest.raises(UserError, match=r"manifest.json is damaged \(Expected `str`"):
            trained_from(tree)
        with edited(tree.folder / "data/text2text_files/manifest.json") as plain:
            entry(plain)[key] = before


def test_a_lock_that_is_a_link_empties_no_file(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run/lock").symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match="run/lock is a link to outside"), lock_run(tmp_path / "run"):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.slow
def test_nothing_but_what_is_named_is_opened_begun_or_unpickled(tiny_run, tmp_path, monkeypatch):
    """Commands work with a run and data that were moved, and never open the recorded raw files."""
    given = tmp_path / "given"
    shutil.copytree(tiny_run.output_dir, given / "run")
    shutil.copytree(tiny_run.data_dir, given / "data")
    run, data = f"--output_dir={given}/run", f"--data_dir={given}/data"
    asked, out = tmp_path / "asked", tmp_path / "out"
    out.mkdir()
    asked.write_text("1 2 3\n4 5\n")
    monkeypatch.setenv("TMPDIR", str(out))
    monkeypatch.setattr("tempfile.tempdir", None)
    with audited() as events:
        assert avg_all.main(["t2t-avg-all", run, "--n=2"]) == 0
        assert decoder.main(["t2t-decoder", run, f"--decode_from_file={asked}", f"--decode_to_file={out}/decodes"]) == 0
        assert eval_command.main(["t2t-eval", run, data, "--checkpoint=averaged"]) == 0
    assert outside(events, given, asked, out) == set()
    assert (programs(events), unpickled(events), executed(events, given)) == (set(), set(), set())
    with audited() as events:  # the audit does record such events
        (tiny_run.raw_dir / "dev.source").read_text()
        exec(compile("", given / "run/code.py", "exec"))
        pickle.loads(pickle.dumps(os.mkdir))
    assert outside(events, given, asked, out) == {str(tiny_run.raw_dir / "dev.source")}
    assert (unpickled(events), executed(events, given)) == ({"posix.mkdir"}, {str(given / "run/code.py")})


# === Code ===


def test_an_array_of_pickles_or_an_archive_is_no_shard(tree, evil):
    thing, executed = evil
    folder = tree.folder / "data/text2text_files"
    pickled, packed, bare = io.BytesIO(), io.BytesIO(), pickle.dumps(thing)
    np.save(pickled, np.array([thing], dtype=object), allow_pickle=True)
    np.savez(packed, a=np.arange(3))
    for content in (pickled.getvalue(), packed.getvalue(), bare, b"", b"\x93NUMPY\x01\x00\x10\x00{'descr': __import__"):
        with edited(folder / "manifest.json") as plain:
            entry = plain["splits"]["train"]["shards"][0]["offsets"]["inputs"]
            (folder / entry["name"]).write_bytes(content)
            entry |= {"bytes": len(content), "sha256": sha256_of(folder / entry["name"])}
        with pytest.raises(UserError, match=r"train-00000-of-00001.inputs.offsets.npy (is corrupt|does not fit)"):
            trained_from(tree)
    assert not executed.exists()


@pytest.mark.slow
def test_a_run_names_no_code(tiny_run, tmp_path, capsys):
    """Neither as a model, set, problem, vocabulary nor plug-in; code in its folder is not imported."""
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    for place in ("__init__.py", "sitecustomize.py", "text2text_files.py", "vocab/__init__.py", "plugin/__init__.py"):
        (run / place).parent.mkdir(exist_ok=True)
        (run / place).write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    plugin = {"name": "plugin", "kind": "usr_dir", "fingerprint": "f", "registered": ["problem:text2text_files"]}
    for change in (
        {"plugins": [{**plugin, "name": str(run / "plugin")}]},
        {"plugins": [plugin]},
        {"model": "os.system"},
        {"model": "plugin"},
        {"problem": "plugin:Problem"},
        {"problem": "../plugin"},
    ):
        with edited(run / "run.json") as record:
            before = {key: record[key] for key in change}
            record |= change
        assert decoder.main(["t2t-decoder", f"--output_dir={run}", f"--decode_from_file={run}/run.json"]) == 2, change
        assert "Traceback" not in capsys.readouterr().err
        with edited(run / "run.json") as record:
            record |= before
    assert not (tmp_path / "executed").exists()


# === Values ===


def leaves(value, path=()):
    """Yields the path of every value in JSON."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in children:
        yield from leaves(inner, (*path, key))


def with_value(whole, path, value):
    """A copy of JSON with the value at a path replaced."""
    copy = json.loads(json.dumps(whole))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def hostile(file):
    """Replaces each value of a sealed file by hostile ones in turn; yields path and value, then restores the file."""
    whole = file.read_bytes()
    plain = {key: value for key, value in json.loads(whole).items() if key != "seal"}
    for number, path in enumerate(list(leaves(plain))[1:]):
        if path[:2] in (("splits", "train"), ("splits", "test")):
            continue  # the same as dev
        for value in (HOSTILE * 2)[number % len(HOSTILE) :][: len(HOSTILE) : 4]:  # a rotating quarter
            with edited(file) as values:
                values.clear()
                values.update(with_value(plain, path, value))
            yield path, value
            file.write_bytes(whole)


def complaint(read, path, value):
    """Calls `read`; returns an error text, "" if it succeeds or raises a T2TError."""
    try:
        read()
    except T2TError:
        return ""
    except Exception as error:
        return f"{'.'.join(map(str, path))} = {value!r}: {type(error).__name__}: {error}"
    return ""


@pytest.mark.slow
def test_hostile_values_of_a_record_are_answered_in_a_line(tree):
    """Up to the point where the model would be built."""
    file = tree.folder / "run/run.json"
    found = {complaint(lambda: load(file.parent, "nowhere"), path, value) for path, value in hostile(file)} - {""}
    assert not found, "\n".join(sorted(found))


@pytest.mark.slow
def test_hostile_values_of_a_manifest_are_answered_in_a_line(tree):
    file = tree.folder / "data/text2text_files/manifest.json"
    found = {complaint(tree.open_data, path, value) for path, value in hostile(file)} - {""}
    assert not found, "\n".join(sorted(found))


def test_hostile_checkpoints_whose_checksums_hold(tree):
    folder = tree.folder / "run/checkpoints/step-00000004"
    state = {"format": 1, "step": 4, "state": {}}
    states = [state | {name: value} for name in state for value in HOSTILE if value in (None, "x", [], [[{}]])]
    states += [
        state | {"state": {"vocabularies": value}} for value in ("x", [], {"inputs": "x"}, {"inputs": [1, 2, 3]})
    ]
    states += [state | {"state": {"architecture": value}} for value in (None, "x", [])]
    states += [[], 3, "x", {}]
    tensors = [
        {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}
        for dtype, shape, offsets in (
            ("F99", [1], [0, 4]), ("F32", [2**40], [0, 4]), ("F32", [-1], [0, 4]),
            ("F32", [1], [0, 2**60]), ("F32", [1], [4, 0]), ("O", [1], [0, 4]),
        )
    ]  # fmt: skip
    contents = [("state.json", json.dumps(state).encode()) for state in states]
    headers = [json.dumps(one).encode() for one in tensors]
    contents += [("model.safetensors", struct.pack("<Q", len(head)) + head + b"\0" * 4) for head in headers]
    contents += [("model.safetensors", struct.pack("<Q", 2**62)), ("model.safetensors", b"\x80\x04.")]
    for name, content in contents:
        whole, sums = (folder / name).read_bytes(), (folder / "checksums.json").read_bytes()
        (folder / name).write_bytes(content)
        changed = json.loads(sums) | {name: sha256_of(folder / name)}
        (folder / "checksums.json").write_bytes(_json_bytes(changed))
        with pytest.raises(UserError, match="step-00000004"):
            tree.store.load(4)
        (folder / name).write_bytes(whole)
        (folder / "checksums.json").write_bytes(sums)


# === Archives ===


def test_what_unpacks_to_more_than_is_sensible_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in "ab":
            packed.writestr(name, b"\0" * (1 << 19))
    assert len(read_members(tmp_path / "bomb.zip", lambda _: True)) == 2
    with zipfile.ZipFile(tmp_path / "bomb.zip", "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("c", b"\0")
    with pytest.raises(
        UserError, match=r"bomb.zip: its files unpack to more than 1,048,576 bytes, which none of these"
    ):
        read_members(tmp_path / "bomb.zip", lambda _: True)
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.zip"]


def test_a_packed_vocabulary_is_bounded(tmp_path, monkeypatch):
    import gzip

    monkeypatch.setattr("t2t.text.vocabulary_files.MOST_BYTES", 1000)
    (tmp_path / "v.subwords.gz").write_bytes(gzip.compress(b"x" * 2000))
    with pytest.raises(UserError, match=r"v.subwords.gz: unpacks to more than 1,000 bytes, which no such file has"):
        read_vocabulary(tmp_path / "v.subwords.gz")
