"""Paths of other file systems are refused: they would become folders of odd names here."""

from pathlib import Path

import pytest

import t2t
from t2t.cli import bleu, datagen, decoder, exporter, trainer
from t2t.errors import UserError
from t2t.files.paths import join_names, local_path, named_files
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


# === Several files in one option ===


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A folder, which is the current one, of files whose names sort otherwise than they were made."""
    monkeypatch.chdir(tmp_path)
    for name in ("b.en", "c.en", "a.en", "a,b.en", "odd[1].en"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("b.en", ["b.en"]),
        (Path("b.en"), ["b.en"]),
        ("b.en, a.en,", ["b.en", "a.en"]),
        ("?.en", ["a.en", "b.en", "c.en"]),
        ("c.en,[ab].en", ["c.en", "a.en", "b.en"]),
        ("a,b.en", ["a,b.en"]),  # a file, and no list
        ("odd[1].en", ["odd[1].en"]),  # a file, and no pattern
        ("*.de", ["*.de"]),
        ("gone.en,a.en", ["gone.en", "a.en"]),
    ],
)
def test_an_option_names_one_file_or_several(parts, text, names):
    assert named_files(text) == [parts / name for name in names]
    if names != ["a,b.en"]:
        assert named_files(join_names(named_files(text))) == named_files(text)


def test_a_comma_in_one_of_several_names_is_refused(parts):
    with pytest.raises(UserError) as raised:
        join_names(named_files("a*.en"))
    assert str(raised.value) == (
        f"{parts}/a,b.en: commas are between the names of files, and this one has a comma; rename it"
    )
