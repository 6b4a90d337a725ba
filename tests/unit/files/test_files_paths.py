"""Local paths and addresses of object stores; addresses are refused for code and pages."""

from pathlib import Path

import pytest

import t2t
from t2t.cli import bleu, datagen, decoder, exporter, trainer
from t2t.files.paths import address_of, check_local, join_names, local_path, named_files, to_record, with_addresses
from tests.errors import refused


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_paths_that_lead_nowhere_or_to_another_path_are_refused():
    for scheme in ("file", "local", "s4", "x-y+z.1"):
        for path in (f"{scheme}://bucket/data", Path(f"{scheme}://bucket/data")):
            with refused(path, f"{scheme}://"):
                local_path(path)
    for path in ("s3://bucket/../other", "s3://bucket//data", "s3://bucket/./data", "~nobody_at_all/data"):
        with refused(path):
            local_path(path)
    with refused("~nobody_at_all/b"):
        named_files("a,~nobody_at_all/b")
    check_local("/a/b")
    with refused("--t2t_usr_dir=s3://b/x", "s3://"):
        check_local("s3://b/x", "t2t_usr_dir")


def test_other_paths_are_of_this_machine(monkeypatch):
    for path in ("", "data", "/a/b", "a:b", "a/gs://b", "./gs://b", "-", "C:/data", "name=gs://b"):
        assert local_path(path) == Path(path)
        assert address_of(path) is None
    monkeypatch.setenv("HOME", "/home/someone")
    assert local_path("~/data") == Path("/home/someone/data")
    monkeypatch.delenv("T2T_CACHE")
    for of_user, cache in (("", "/home/someone/.cache"), ("relative", "/home/someone/.cache"), ("/caches", "/caches")):
        monkeypatch.setenv("XDG_CACHE_HOME", of_user)
        assert local_path("s3://b/data") == Path(f"{cache}/t2t/files/s3/b/data")


@pytest.mark.parametrize(("address", "place"), [
    ("s3://bucket/data", "s3/bucket/data"),
    ("gs://bucket/data/", "gs/bucket/data"),
    ("hdfs:///a/b", "hdfs/_/a/b"),
    ("hdfs://name:8020/a/b c", "hdfs/name:8020/a/b c"),
    ("abfs://files@account.dfs.core.windows.net/a", "abfs/files@account.dfs.core.windows.net/a"),
])  # fmt: skip
def test_an_address_has_a_mirror_and_a_mirror_its_address(cache, address, place):
    mirror = local_path(address)
    assert mirror == cache / "files" / place
    if ":///" not in address:
        assert local_path(Path(address)) == mirror  # though pathlib leaves out a slash
    assert address_of(mirror) == to_record(mirror) == address.rstrip("/")
    assert with_addresses(f"no data in {mirror}; see {mirror}/x") == (
        f"no data in {address.rstrip('/')}; see {address.rstrip('/')}/x"
    )
    assert local_path(str(mirror)) == mirror  # a path of a mirror is returned unchanged


def test_links_in_the_way_to_the_cache(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "link"))
    assert address_of(local_path("s3://b/run").resolve()) == "s3://b/run"
    assert to_record(tmp_path / "link" / "data") == str(tmp_path / "real" / "data")


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path
    assert list((tmp_path / "here").iterdir()) == []


OF_FILES = ["--problem=text2text_files"]


@pytest.mark.parametrize(("command", "flag", "others"), [
    *((datagen, flag, ["--problem=text2text_files"]) for flag in ("data_dir", "tmp_dir", "train_source", "vocab_file")),
    (datagen, "problem", []),
    (trainer, "t2t_usr_dir", []),
    (decoder, "attention_to_html", ["--output_dir=run"]),
    (exporter, "t2t_usr_dir", ["--output_dir=run"]),
    (bleu, "tokenize", []),
])  # fmt: skip
def test_commands_refuse_addresses_by_the_flag(here, capsys, command, flag, others):
    scheme = "s4" if others == OF_FILES else "gs"
    assert command.main(["t2t", *others, f"--{flag}={scheme}://bucket/x"]) == 2
    assert f"--{flag}={scheme}://bucket/x" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "given", "shared", "asked"), [
    *(
        (decoder, ["--output_dir=run", "--decode_from_file=a.en"], "decode_to_file", one)
        for one in ("shard=0/2", "merge")
    ),
    (datagen, ["--problem=text2text_files"], "data_dir", "beam_options=--runner=DirectRunner"),
])  # fmt: skip
def test_what_shares_the_work_needs_a_folder(here, capsys, command, given, shared, asked):
    assert command.main(["t2t", *given, f"--{shared}=s3://bucket/x", f"--{asked}"]) == 2
    said = capsys.readouterr().err
    assert f"--{asked.partition('=')[0]}: " in said
    assert f"--{shared}=s3://bucket/x " in said


def test_python_functions_refuse_code_from_a_store(here):
    for remote in ("s3://bucket/x", Path("s3://bucket/x")):
        with refused(remote):
            t2t.generate_data("algorithmic_reverse_binary40", "data", t2t_usr_dir=remote)


# === Several files in one option ===
@pytest.fixture
def parts(tmp_path, monkeypatch):
    """The current folder, with files created in an order other than that of their names."""
    monkeypatch.chdir(tmp_path)
    for name in ("b.en", "c.en", "a.en", "a,b.en", "odd[1].en"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(("text", "names"), [
    ("b.en", ["b.en"]),
    (Path("b.en"), ["b.en"]),
    ("b.en, a.en,", ["b.en", "a.en"]),
    ("?.en", ["a.en", "b.en", "c.en"]),
    ("c.en,[ab].en", ["c.en", "a.en", "b.en"]),
    ("a,b.en", ["a,b.en"]),  # a file, and no list
    ("odd[1].en", ["odd[1].en"]),  # a file, and no pattern
    ("*.de", ["*.de"]),
    ("gone.en,a.en", ["gone.en", "a.en"]),
])  # fmt: skip
def test_an_option_names_one_file_or_several(parts, text, names):
    assert named_files(text) == [parts / name for name in names]
    if names != ["a,b.en"]:
        assert named_files(join_names(named_files(text))) == named_files(text)
    with refused(parts / "a,b.en"):
        join_names(named_files("a*.en"))  # of which one has a comma


@pytest.mark.parametrize("times", [60, 600])
def test_a_list_or_pattern_may_be_longer_than_a_name_or_path(parts, times):
    files = [parts / "b.en", parts / "a.en"] * times
    assert named_files("b.en,a.en," * times) == files
    assert named_files(join_names(files)) == files
    assert named_files(f"[{'ab' * times}].en") == [parts / "a.en", parts / "b.en"]


@pytest.mark.parametrize("pattern", ["part-*.en", "part-?.en", "par*/1.en"])
def test_a_pattern_in_a_store_is_refused_whatever_is_here_of_it(pattern):
    here = local_path("s3://corpora/part-1.en")
    here.parent.mkdir(parents=True)
    here.touch()
    with refused(f"s3://corpora/{pattern}"):
        named_files(f"a.en,s3://corpora/{pattern}")
    assert named_files("s3://corpora/part-[1].en") == [here.with_name("part-[1].en")]  # a name as good as another
