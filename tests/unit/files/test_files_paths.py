"""Paths of other file systems are refused: they would become folders of odd names here."""

from pathlib import Path

import pytest

import t2t
from t2t.cli import bleu, datagen, decoder, exporter, trainer
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.problems.text_files import Text2TextFiles


@pytest.mark.parametrize("scheme", ["gs", "s3", "file", "http", "hdfs", "x-y+z.1"])
def test_a_scheme_is_refused(scheme):
    for path in (f"{scheme}://bucket/data", Path(f"{scheme}://bucket/data")):
        with pytest.raises(UserError) as raised:
            local_path(path)
        assert str(raised.value) == (
            f"{path}: paths with {scheme}:// are not supported; name a path of this machine, such as the folder where "
            f"that storage is mounted"
        )


@pytest.mark.parametrize("path", ["", "data", "/a/b", "a:b", "a/gs://b", "./gs://b", "-", "C:/data", "name=gs://b"])
def test_other_paths_are_of_this_machine(path):
    assert local_path(path) == Path(path)


def test_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert local_path("~/data") == Path("/home/someone/data")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "flag", "others"),
    [
        (datagen, "data_dir", ["--problem=algorithmic_copy"]),
        (datagen, "tmp_dir", ["--problem=algorithmic_copy", "--data_dir=data"]),
        (trainer, "output_dir", ["--problem=algorithmic_copy"]),
        (trainer, "warm_start_from", []),
        (trainer, "t2t_usr_dir", []),
        (decoder, "decode_to_file", ["--output_dir=run"]),
        (exporter, "export_dir", ["--output_dir=run"]),
        (bleu, "translation", []),
    ],
)
def test_commands_refuse_it_by_its_flag(here, capsys, command, flag, others):
    assert command.main(["t2t", *others, f"--{flag}=gs://bucket/x"]) == 2
    assert f"--{flag}=gs://bucket/x: paths with gs:// are not supported; name a path of this" in capsys.readouterr().err


@pytest.mark.parametrize("remote", ["s3://bucket/x", Path("s3://bucket/x")])
@pytest.mark.parametrize(
    "call",
    [
        lambda path: t2t.generate_data("algorithmic_reverse_binary40", path),
        lambda path: t2t.generate_data("algorithmic_reverse_binary40", "data", tmp_dir=path),
        lambda path: t2t.generate_data("algorithmic_reverse_binary40", "data", usr_dir=path),
        lambda path: t2t.train(output_dir=path),
        lambda path: t2t.load(path),
        lambda path: t2t.export_model("run", path),
        lambda path: Text2TextFiles(train_source=path),
    ],
)
def test_python_functions_refuse_it(here, call, remote):
    with pytest.raises(UserError, match=r"s3:/{1,2}bucket/x: paths with s3:// are not supported"):
        call(remote)
