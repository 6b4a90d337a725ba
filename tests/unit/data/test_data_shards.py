import contextlib
import dataclasses
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

from t2t.data.columns import FeatureColumn, batch_dtype, first_not_finite, pack, pad, stored_dtype
from t2t.data.generation.split_writer import SplitWriter
from t2t.data.manifest import FileRecord, Manifest, SplitRecord, read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.errors import refused

TOKENS = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=70_000)
LABEL = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=5)
AUDIO = FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=16_000)
REAL = FeatureSpec(kind=FeatureKind.REAL, shape=(3,))
IMAGE = FeatureSpec(kind=FeatureKind.IMAGE, shape=(2, 4, 3))
VIDEO = FeatureSpec(kind=FeatureKind.VIDEO, shape=(2, 4, 3))


def examples(count):
    rng = np.random.default_rng(0)
    return [
        {
            "text": np.append(rng.integers(2, 70_000, rng.integers(0, 9)), 1).astype(np.int32),
            "label": np.asarray(rng.integers(0, 5), np.int32),
            "sound": rng.standard_normal(rng.integers(0, 7)).astype(np.float32),
            "vectors": rng.standard_normal((rng.integers(1, 5), 3)).astype(np.float32),
            "picture": rng.integers(0, 256, (2, 4, 3)).astype(np.uint8),
            "clip": rng.integers(0, 256, (rng.integers(1, 5), 2, 4, 3)).astype(np.uint8),
        }
        for _ in range(count)
    ]


FEATURES = {"text": TOKENS, "label": LABEL, "sound": AUDIO, "vectors": REAL, "picture": IMAGE, "clip": VIDEO}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """47 examples of every kind of feature, written in calls of 5 into shards of at most 12."""
    folder = tmp_path_factory.mktemp("shards")
    rows = examples(47)
    writer = SplitWriter(folder, "train", FEATURES, most_examples=12)
    for start in range(0, 47, 5):
        part = rows[start : start + 5]
        writer.write({name: pack([row[name] for row in part], spec, name, "p") for name, spec in FEATURES.items()})
    columns, shards = writer.finish()
    manifest = Manifest(
        problem="p", settings={}, seed=0, vocabularies={}, written_by="", spec=ProblemSpec(name="p", features=FEATURES),
        splits={"train": SplitRecord(examples=47, columns=columns, shards=shards, dropped={}, mended={})},
    )  # fmt: skip
    return folder, manifest, rows


def test_every_kind_of_feature_comes_back(written):
    folder, manifest, rows = written
    reader = SplitReader(folder, manifest, "train")
    assert len(reader) == 47
    assert [shard.examples for shard in manifest.split("train").shards] == [10, 10, 10, 10, 7]
    indices = np.random.default_rng(1).integers(0, 47, 200)
    for name in FEATURES:
        values, lengths = reader.read(indices, name)
        scalar_or_image = name in ("label", "picture")
        expected = [rows[i][name][None] if scalar_or_image else rows[i][name] for i in indices]
        assert lengths.tolist() == [len(e) for e in expected]
        assert np.array_equal(values, np.concatenate(expected))
        assert np.array_equal(reader.lengths(name, indices), lengths)
        assert reader.longest[name] == max(reader.lengths(name))
    shard = manifest.split("train").shards[1]  # in plain files of numpy
    values = np.load(folder / shard.values["vectors"].name)
    assert np.array_equal(values, np.concatenate([row["vectors"] for row in rows[10:20]]))
    assert np.load(folder / shard.offsets["vectors"].name)[-1] == len(values)


@contextlib.contextmanager
def open_files(more):
    """Lets this process open only so many more files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/dev/null") as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_parts_are_read_without_a_file_open_for_each(written):
    folder, manifest, rows = written
    with open_files(1):
        reader = SplitReader(folder, manifest, "train")
        assert np.array_equal(reader.single(np.arange(47), "picture"), [row["picture"] for row in rows])
    nothing = {"train": dataclasses.replace(manifest.split("train"), shards=[])}
    assert len(SplitReader(folder, dataclasses.replace(manifest, splits=nothing), "train")) == 0
    with open_files(0), refused(folder, "ulimit"):
        SplitReader(folder, manifest, "train")


def test_rows_are_padded_with_zeros(written):
    folder, manifest, rows = written
    reader = SplitReader(folder, manifest, "train")
    indices = np.array([46, 0, 13, 13])
    for name, dtype in (("text", np.int32), ("sound", np.float32), ("vectors", np.float32), ("clip", np.uint8)):
        padded = pad(*reader.read(indices, name), 11, batch_dtype(reader.features[name]))
        assert padded.dtype == dtype
        for row, i in zip(padded, indices, strict=True):
            length = len(rows[i][name])
            assert np.array_equal(row[:length], rows[i][name])
            assert not row[length:].any()
    assert reader.single(indices, "label").tolist() == [int(rows[i]["label"]) for i in indices]
    assert np.array_equal(reader.single(indices, "picture"), [rows[i]["picture"] for i in indices])
    values, lengths = reader.read(np.array([], int), "vectors")
    assert pad(values, lengths, 4, np.float32).shape == (0, 4, 3), "nothing"


def test_a_call_larger_than_a_shard_is_cut_and_few_bytes_are_used(tmp_path):
    writer = SplitWriter(tmp_path, "dev", {"targets": TOKENS}, most_examples=4)
    writer.write({"targets": pack([np.array([5, 1])] * 9 + [np.array([9, 9, 1])], TOKENS, "targets", "p")})
    totals, shards = writer.finish()
    assert [shard.examples for shard in shards] == [4, 4, 2]
    assert (totals["targets"].items, totals["targets"].longest) == (21, 3)
    assert np.load(tmp_path / "dev-00002-of-00003.targets.values.npy").tolist() == [5, 1, 9, 9, 1]
    writer = SplitWriter(tmp_path, "test", {"targets": LABEL}, most_bytes=10)
    for _ in range(6):
        writer.write({"targets": FeatureColumn(np.zeros(4, np.uint8), np.ones(4, np.int64))})
    assert [shard.examples for shard in writer.finish()[1]] == [8, 8, 8], "one ends when its bytes are full"
    for size, dtype in ((256, "u1"), (257, "u2"), (65_536, "u2"), (65_537, "i4")):
        assert stored_dtype(FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=size)) == np.dtype(dtype)


@pytest.fixture
def folder(digits_folder, tmp_path):
    return shutil.copytree(digits_folder, tmp_path / "digits")


VICTIM = "train-00002-of-00004.targets.values.npy"


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-1])


def zero_header(path):
    path.write_bytes(b"\0" * 6 + path.read_bytes()[6:])


@pytest.mark.parametrize("damage", [Path.unlink, cut_off, zero_header])
def test_a_missing_or_damaged_file_is_named_on_opening(folder, damage):
    damage(folder / VICTIM)
    with refused(VICTIM):
        SplitReader(folder, read_manifest(folder), "train")
    SplitReader(folder, read_manifest(folder), "dev").verify()


def test_a_flipped_bit_is_found_by_verifying(folder):
    content = (folder / VICTIM).read_bytes()
    (folder / VICTIM).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    reader = SplitReader(folder, read_manifest(folder), "train")
    with refused(VICTIM):
        reader.verify()


def test_files_that_do_not_belong_together_are_refused(written):
    folder, manifest, _ = written
    split = manifest.split("train")
    size = folder.stat().st_size
    for file, named in [
        (split.shards[1].offsets["text"], "train-00000-of-00005.text.values.npy"),
        (FileRecord(name=".", bytes=size, sha256=""), f"{folder}:"),  # not a file
        (FileRecord(name="x" * 300, bytes=size, sha256=""), "x" * 300),  # no file system has such names
    ]:
        mixed = dataclasses.replace(split.shards[0], offsets={**split.shards[0].offsets, "text": file})
        splits = {"train": dataclasses.replace(split, shards=[mixed, *split.shards[1:]])}
        with refused(named):
            SplitReader(folder, dataclasses.replace(manifest, splits=splits), "train")


@pytest.mark.parametrize(("spec", "values", "about"), [
    (TOKENS, [[70_000, 1]], ["'f'", "p", 70000, "1..69999"]),
    (TOKENS, [[0, 1]], [0, "1..69999"]),
    (TOKENS, [[-3, 1]], [-3]),
    (TOKENS, [[5, 6]], [1]),
    (TOKENS, [[0.5, 1.0]], ["float64"]),
    (TOKENS, [[[5, 1]]], ["tokens", 1]),
    (LABEL, [5], [5, "0..4"]),
    (REAL, [[[1.0, 2.0]]], ["real", 2, "(3,)"]),
    (IMAGE, [np.full((2, 4, 3), 256)], [256, "0..255"]),
    (TOKENS, [np.array([5, 1]), np.array([], np.int32)], ["'f'", 1]),
])  # fmt: skip
def test_values_that_the_spec_forbids_name_feature_and_problem(spec, values, about):
    with refused("'f'", "p", *about):
        pack([np.asarray(value) for value in values], spec, "f", "p")


@pytest.mark.parametrize("spec", [AUDIO, REAL])
def test_the_first_example_that_is_not_finite_is_found(spec):
    rows = [np.zeros((length, *spec.shape), np.float32) for length in (2, 0, 3, 1, 4)]
    assert first_not_finite(pack(rows, spec, "inputs", "p")) is None
    rows[4][0] = np.inf
    assert first_not_finite(pack(rows, spec, "inputs", "p")) == 4
    rows[2][2, ...] = np.nan
    assert first_not_finite(pack(rows, spec, "inputs", "p")) == 2
    assert first_not_finite(pack([np.asarray(3), np.asarray(2)], LABEL, "targets", "p")) is None
