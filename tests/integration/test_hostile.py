"""Untrusted folders: no code in them is executed, no file outside them is read, and nothing blocks on them."""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import _json_bytes
from t2t.checkpoints.run_dir import lock_run
from t2t.cli import avg_all, decoder
from t2t.cli import eval as eval_command
from t2t.errors import T2TError, UserError
from t2t.files.atomic import sha256_of
from t2t.files.trust import MOST_BYTES
from t2t.problems.archives import read_members
from t2t.runs.loading import load
from t2t.text.vocabulary_files import read_vocabulary
from tests.audit import audited, executed, outside, programs, unpickled
from tests.builders import edited
from tests.errors import refused
from tests.faults.damage import contents_of
from tests.faults.damaged import READERS, kind_of, make, resumed, trained_from
from tests.in_process import call, refuses

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


def names_it(reader, tree, file):
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
        assert any(names_it(reader, tree, file) for reader in READERS[kind]), name
        file.unlink()
        copy.rename(file)


@pytest.mark.parametrize("name", ["run/vocab", "run/checkpoints", "run/checkpoints/step-00000004"])
def test_no_folder_of_a_run_leads_out_of_it(tree, tmp_path, name):
    shutil.move(tree.folder / name, tmp_path / "moved")
    (tree.folder / name).symlink_to(tmp_path / "moved")
    with refused(name):
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
        with refused("manifest.json"):
            trained_from(tree)
        with edited(tree.folder / "data/text2text_files/manifest.json") as plain:
            entry(plain)[key] = before


def test_a_lock_that_is_a_link_empties_no_file(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run/lock").symlink_to(tmp_path / "victim")
    with refused("run/lock"), lock_run(tmp_path / "run"):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.slow  # that whole commands open only what they are given: a run and data that were moved, no raw files
def test_nothing_but_what_is_named_is_opened_begun_or_unpickled(tiny_run, tmp_path):
    given, lines, out = tmp_path / "given", tmp_path / "lines", tmp_path / "out"
    run, data = shutil.copytree(tiny_run.output_dir, given / "run"), shutil.copytree(tiny_run.data_dir, given / "data")
    out.mkdir()
    lines.write_text("1 2 3\n4 5\n")
    with audited() as events:
        call(avg_all, output_dir=run, n=2)
        call(decoder, output_dir=run, decode_from_file=lines, decode_to_file=out / "decodes")
        call(eval_command, output_dir=run, data_dir=data, checkpoint="averaged")
    assert outside(events, given, lines, out) == set()
    assert (programs(events), unpickled(events), executed(events, given)) == (set(), set(), set())
    with audited() as events:  # the audit does record such events
        (tiny_run.raw_dir / "dev.source").read_text()
        exec(compile("", run / "code.py", "exec"))
        pickle.loads(pickle.dumps(os.mkdir))
    assert outside(events, given, lines, out) == {str(tiny_run.raw_dir / "dev.source")}
    assert (unpickled(events), executed(events, given)) == ({"posix.mkdir"}, {str(run / "code.py")})


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
        with refused("train-00000-of-00001.inputs.offsets.npy"):
            trained_from(tree)
    assert not executed.exists()


@pytest.mark.slow  # that whole commands run no code of a run's folder
def test_a_run_names_no_code(tiny_run, tmp_path):
    """Neither as a model, set, problem, vocabulary nor plug-in; code in its folder is not imported."""
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    for place in ("__init__.py", "sitecustomize.py", "text2text_files.py", "vocab/__init__.py", "plugin/__init__.py"):
        (run / place).parent.mkdir(exist_ok=True)
        (run / place).write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    plugin = {"name": "plugin", "kind": "usr_dir", "fingerprint": "f", "registered": ["problem:text2text_files"]}
    for change in (
        {"plugins": [{**plugin, "name": str(run / "plugin")}]}, {"plugins": [plugin]}, {"model": "os.system"},
        {"model": "plugin"}, {"problem": "plugin:Problem"}, {"problem": "../plugin"},
    ):  # fmt: skip
        with edited(run / "run.json") as record:
            before = {key: record[key] for key in change}
            record |= change
        assert "Traceback" not in refuses(decoder, "", output_dir=run, decode_from_file=run / "run.json").err
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


def crashes(file, read):
    """Returns what is wrong with `read` on hostile values of a file: it may only succeed or raise a T2TError."""
    found = []
    for path, value in hostile(file):
        try:
            read()
        except T2TError:
            continue
        except Exception as error:
            found.append(f"{'.'.join(map(str, path))} = {value!r}: {type(error).__name__}: {error}")
    return found


@pytest.mark.slow  # some hundred values of each; the unit tests of records and manifests have a few
def test_hostile_values_of_a_record_and_a_manifest_are_answered_in_a_line(tree):
    """Up to the point where the model would be built."""
    run = tree.folder / "run"
    assert crashes(run / "run.json", lambda: load(run, "nowhere")) == []
    assert crashes(tree.folder / "data/text2text_files/manifest.json", tree.open_data) == []


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
        with refused("step-00000004"):
            tree.store.load(4)
        (folder / name).write_bytes(whole)
        (folder / "checksums.json").write_bytes(sums)


# === Archives ===
def header(kind, size):
    """Returns the header of a tar archive for a file or what follows, which may be of any size."""
    info = tarfile.TarInfo("a.txt")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def attributes(kind, record):
    """Returns a header of one attribute, `keyword=value` of a length from 6 to 95."""
    content = b"%d %s\n" % (len(record) + 4, record)
    return header(kind, len(content)) + content.ljust(512, b"\0")


EMPTY, MANY = header(tarfile.REGTYPE, 0), 4 << 20
HEADERS = {
    "attributes": header(tarfile.XHDTYPE, MANY) + bytes(MANY),
    "attributes of a negative size": header(tarfile.XHDTYPE, -512) + bytes(MANY),
    "a long name": header(tarfile.GNUTYPE_LONGNAME, MANY) + bytes(MANY),
    "attributes of all files": b"".join(attributes(tarfile.XGLTYPE, b"name%03d=v" % n) + EMPTY for n in range(150)),
    "a step back": attributes(tarfile.XHDTYPE, b"size=-1536"),
    "a negative size": header(tarfile.REGTYPE, -1024),
    "no number": header(tarfile.XHDTYPE, 8) + b"9 a=b\n".rjust(5000, b"9").ljust(5120, b"\0"),
    "a map of sparse parts": attributes(tarfile.XHDTYPE, b"GNU.sparse.map=a,b"),
}


@pytest.mark.parametrize("beginning", HEADERS.values(), ids=HEADERS)
def test_headers_of_tar_archives_are_not_believed(tmp_path, beginning):
    archive = tmp_path / "a.tgz"
    archive.write_bytes(gzip.compress(beginning + EMPTY + bytes(1024), 1))
    tracemalloc.start()
    with refused(archive):
        read_members(archive, lambda _: True)
    assert tracemalloc.get_traced_memory()[1] < MANY // 2
    tracemalloc.stop()


def test_what_unpacks_to_more_than_is_sensible_is_refused(tmp_path):
    bomb, packed = tmp_path / "bomb.zip", tmp_path / "v.subwords.gz"
    for mode, names in (("w", "ab"), ("a", "c")):
        with zipfile.ZipFile(bomb, mode, zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, b"\0" * (1 << 19 if mode == "w" else 1))
        if mode == "w":
            assert len(read_members(bomb, lambda _: True, most_bytes=1 << 20)) == 2
    with refused(bomb, f"{1 << 20:,}"):
        read_members(bomb, lambda _: True, most_bytes=1 << 20)
    with zipfile.ZipFile(lying := tmp_path / "lying.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"\0" * (32 << 20))
        archive.infolist()[0].file_size = 4
    tracemalloc.start()
    with refused(lying):
        read_members(lying, lambda _: True)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    packed.write_bytes(gzip.compress(b"x" * (MOST_BYTES + 1), 1))
    with refused(packed, f"{MOST_BYTES:,}"):
        read_vocabulary(packed)
    assert sorted(tmp_path.iterdir()) == [bomb, lying, packed]
