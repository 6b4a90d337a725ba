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
from t2t.errors import UserError
from t2t.files.atomic import sha256_of


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


def test_everything_comes_back_bit_for_bit(tmp_path):
    written = sample()
    write_checkpoint(tmp_path / "c", written)
    read = read_checkpoint(tmp_path / "c")
    assert (read.step, read.state, read.name) == (1500, written.state, "c")
    for part in ("model", "optimizer", "ema"):
        assert_same_arrays(getattr(read, part), getattr(written, part))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.arange(20)[::3],
        np.zeros((0, 3), np.float32),
        np.float16(1.5),
        np.array([True, False]),
        np.array([1, -2, np.nan, np.inf, -0.0], np.float32),
    ],
    ids=["transposed", "strided", "empty", "scalar", "bool", "special"],
)
def test_arrays_of_every_layout_come_back(tmp_path, array):
    write_checkpoint(tmp_path / "c", Checkpoint(1, {"a/b:0": array}))
    assert_same_arrays(read_checkpoint(tmp_path / "c").model, {"a/b:0": array})


def test_loaded_arrays_outlive_their_file(tmp_path):
    write_checkpoint(tmp_path / "c", Checkpoint(1, {"w": np.arange(100_000)}))
    read = read_checkpoint(tmp_path / "c")
    for file in (tmp_path / "c").iterdir():
        file.unlink()
    assert np.array_equal(read.model["w"], np.arange(100_000))


def test_weights_are_the_moving_average_where_there_is_one():
    checkpoint = Checkpoint(1, {"a": np.zeros(1), "statistic": np.ones(1)}, ema={"a": np.full(1, 5.0)})
    assert checkpoint.weights == {"a": 5.0, "statistic": 1.0}


def test_only_the_parts_asked_for_are_read(tmp_path):
    write_checkpoint(tmp_path / "c", sample())
    (tmp_path / "c" / "optimizer.safetensors").unlink()
    read = read_checkpoint(tmp_path / "c", (MODEL,))
    assert read.optimizer is None
    assert read.ema is None
    assert "decoder/bias" in read.model


def test_files_are_as_readable_as_their_folder(tmp_path):
    write_checkpoint(tmp_path / "c", sample())
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "c").iterdir()}
    assert len(set(modes.values())) == 1, modes


@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.safetensors", "ema.safetensors", "state.json", "checksums.json"]
)
def test_every_flipped_bit_is_found(tmp_path, name):
    write_checkpoint(tmp_path / "c", sample())
    file = tmp_path / "c" / name
    content = file.read_bytes()
    positions = range(len(content)) if name.endswith("json") else range(0, len(content), 7)
    for position in positions:
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        file.write_bytes(flipped)
        with pytest.raises(DamagedCheckpointError, match=r"checkpoint .*c is damaged: .*; restore it from a copy or"):
            read_checkpoint(tmp_path / "c")
    file.write_bytes(content)
    read_checkpoint(tmp_path / "c")


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "checksums.json"])
def test_a_missing_or_cut_file_is_named(tmp_path, name):
    write_checkpoint(tmp_path / "c", sample())
    file = tmp_path / "c" / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedCheckpointError, match=rf"{name} is not what was written"):
        read_checkpoint(tmp_path / "c")
    file.unlink()
    with pytest.raises(DamagedCheckpointError, match=rf"{name} is missing"):
        read_checkpoint(tmp_path / "c")


def test_checksums_must_list_the_model_and_the_state(tmp_path):
    write_checkpoint(tmp_path / "c", sample())
    file = tmp_path / "c" / "checksums.json"
    for name in ("model.safetensors", "state.json"):
        whole = json.loads(file.read_bytes())
        file.write_bytes(_json_bytes({key: value for key, value in whole.items() if key != name}))
        with pytest.raises(DamagedCheckpointError, match=rf"checksums.json does not list {name}"):
            read_checkpoint(tmp_path / "c")
        file.write_bytes(_json_bytes(whole))


def test_a_file_that_is_no_container_is_damage_even_if_its_checksum_holds(tmp_path):
    write_checkpoint(tmp_path / "c", sample())
    (tmp_path / "c" / "model.safetensors").write_bytes(b"\xff" * 100)
    checksums = json.loads((tmp_path / "c" / "checksums.json").read_bytes())
    checksums["model.safetensors"] = sha256_of(tmp_path / "c" / "model.safetensors")
    (tmp_path / "c" / "checksums.json").write_bytes(_json_bytes(checksums))
    with pytest.raises(DamagedCheckpointError, match=r"model.safetensors is no safetensors file"):
        read_checkpoint(tmp_path / "c")


def test_a_newer_format_is_told_from_damage(tmp_path):
    write_checkpoint(tmp_path / "c", sample())
    state, checksums = tmp_path / "c" / "state.json", tmp_path / "c" / "checksums.json"
    state.write_bytes(_json_bytes({"format": FORMAT + 1, "something": "else"}))
    checksums.write_bytes(_json_bytes({**json.loads(checksums.read_bytes()), "state.json": sha256_of(state)}))
    with pytest.raises(
        UserError, match=r"it has format 2, this version of t2t reads formats up to 1; use the"
    ) as caught:
        read_checkpoint(tmp_path / "c")
    assert not isinstance(caught.value, DamagedCheckpointError)


def test_a_state_that_is_not_json_leaves_nothing(tmp_path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_checkpoint(tmp_path / "c", Checkpoint(1, {}, state={"rng": object()}))
    assert not (tmp_path / "c").exists()
