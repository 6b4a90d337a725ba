"""One checkpoint on disk: saving and loading, and errors for every kind of damage."""

import json
import stat

import ml_dtypes
import numpy as np
import pytest

from t2t.checkpoints.checkpoint import (
    FORMAT,
    MODEL,
    Checkpoint,
    DamagedCheckpointError,
    _json_bytes,
    read_checkpoint,
    write_checkpoint,
)
from t2t.files.atomic import sha256_of
from tests.errors import refused


def sample() -> Checkpoint:
    rng = np.random.default_rng(3)
    return Checkpoint(
        step=1500,
        model={
            "encoder/layer_0/kernel": rng.normal(size=(3, 4)).astype(np.float32),
            "decoder/bias": rng.normal(size=5).astype(ml_dtypes.bfloat16),
        },
        optimizer={"adam/m": rng.normal(size=(3, 4)).astype(np.float32), "adam/iterations": np.int64(1500)},
        ema={"encoder/layer_0/kernel": rng.normal(size=(3, 4)).astype(np.float32)},
        state={"seed": 2**63, "sampler": {"epoch": 1, "position": 7}, "best": [[1000, 31.25]], "rate": 0.1 + 0.2},
    )


def assert_same_arrays(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == np.asarray(array).dtype
        assert found[name].shape == np.shape(array)
        assert found[name].tobytes() == np.asarray(array).tobytes()


def test_everything_comes_back_bit_for_bit_and_weights_are_the_moving_average_where_there_is_one(tmp_path):
    written = sample()
    write_checkpoint(tmp_path / "c", written)
    read = read_checkpoint(tmp_path / "c")
    assert (read.step, read.state, read.name) == (1500, written.state, "c")
    for part in ("model", "optimizer", "ema"):
        assert_same_arrays(getattr(read, part), getattr(written, part))
    checkpoint = Checkpoint(1, {"a": np.zeros(1), "statistic": np.ones(1)}, ema={"a": np.full(1, 5.0)})
    assert checkpoint.weights == {"a": 5.0, "statistic": 1.0}


@pytest.mark.parametrize("array", [
    np.arange(6.0).reshape(2, 3).T, np.arange(20)[::3], np.zeros((0, 3), np.float32), np.float64(1.5),
    np.array([True, False]), np.array([1, -2, np.nan, np.inf, -0.0], np.float32),
], ids=["transposed", "strided", "empty", "scalar", "bool", "special"])  # fmt: skip
def test_arrays_of_every_layout_come_back(tmp_path, array):
    write_checkpoint(tmp_path / "c", Checkpoint(1, {"a/b:0": array}))
    read = read_checkpoint(tmp_path / "c")
    for file in (tmp_path / "c").iterdir():
        file.unlink()  # which loaded arrays outlive
    assert_same_arrays(read.model, {"a/b:0": array})


def test_files_are_as_readable_as_their_folder_and_only_the_parts_asked_for_are_read(tmp_path):
    write_checkpoint(tmp_path / "c", sample())
    assert len({stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "c").iterdir()}) == 1
    (tmp_path / "c" / "optimizer.safetensors").unlink()
    read = read_checkpoint(tmp_path / "c", (MODEL,))
    assert read.optimizer is None
    assert read.ema is None
    assert "decoder/bias" in read.model
    with refused("object", by=TypeError):
        write_checkpoint(tmp_path / "other", Checkpoint(1, {}, state={"rng": object()}))
    assert not (tmp_path / "other").exists(), "a state that is not JSON leaves nothing"


@pytest.fixture
def folder(tmp_path):
    write_checkpoint(tmp_path / "c", sample())
    return tmp_path / "c"


@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.safetensors", "ema.safetensors", "state.json", "checksums.json"]
)
def test_damage_of_any_bit_cut_and_missing_files_are_found(folder, name):
    file = folder / name
    content = file.read_bytes()
    step = 3 if name.endswith("json") else 7
    flipped = (
        content[:n] + bytes([content[n] ^ (1 << n % 8)]) + content[n + 1 :] for n in range(0, len(content), step)
    )
    for damaged in (content[:-1], *flipped):
        file.write_bytes(damaged)
        with refused(folder, by=DamagedCheckpointError):
            read_checkpoint(folder)
    file.unlink()
    with refused(folder, name, by=DamagedCheckpointError):
        read_checkpoint(folder)
    file.write_bytes(content)
    read_checkpoint(folder)


def write_with_checksum(file, content):
    """Replaces a file of a checkpoint, and its checksum."""
    file.write_bytes(content)
    checksums = file.with_name("checksums.json")
    checksums.write_bytes(_json_bytes({**json.loads(checksums.read_bytes()), file.name: sha256_of(file)}))


@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
def test_checksums_must_list_the_model_and_the_state(folder, name):
    file = folder / "checksums.json"
    listed = json.loads(file.read_bytes())
    file.write_bytes(_json_bytes({key: value for key, value in listed.items() if key != name}))
    with refused("checksums.json", name, by=DamagedCheckpointError):
        read_checkpoint(folder)


def test_a_newer_format_is_told_from_damage_which_a_checksum_may_hide(folder):
    content = (folder / "model.safetensors").read_bytes()
    write_with_checksum(folder / "model.safetensors", b"\xff" * 100)
    with refused("model.safetensors", by=DamagedCheckpointError):
        read_checkpoint(folder)
    write_with_checksum(folder / "model.safetensors", content)
    write_with_checksum(folder / "state.json", _json_bytes({"format": FORMAT + 1, "something": "else"}))
    with refused(FORMAT + 1, FORMAT) as caught:
        read_checkpoint(folder)
    assert not isinstance(caught.value, DamagedCheckpointError)
