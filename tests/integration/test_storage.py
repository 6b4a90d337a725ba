"""Commands whose data, runs, files and exports are in an object store: a server of S3 on this machine."""

import json
from pathlib import Path

import pytest

from t2t.cli import avg_all, datagen, decoder, exporter, trainer
from t2t.files.remote import client
from t2t.formats.exporter import UNFINISHED
from tests.in_process import call, refuses
from tests.readme import ROOT, block, shortened, succeed
from tests.stores import bucket, objects, s3, s3_server

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:(boto|moto|aiobotocore).*")


@pytest.fixture(scope="module")
def server():
    with s3_server() as environment:
        yield environment


@pytest.fixture
def store(server, tmp_path, monkeypatch):
    """The URL of an empty bucket."""
    with bucket(server, monkeypatch, tmp_path / "cache") as address:
        yield address


@pytest.fixture
def another_machine(tmp_path, monkeypatch):
    """Returns a function that simulates a change of machine: an empty cache and a new storage client process."""

    def go():
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / f"cache {len(list(tmp_path.glob('cache*')))}"))
        client._close()

    return go


def upload(server, folder, address):
    """Copies a folder into a bucket without using t2t."""
    name, _, prefix = address.removeprefix("s3://").partition("/")
    for path in Path(folder).rglob("*"):
        if path.is_file():
            s3(server).put_object(
                Bucket=name, Key=f"{prefix}/{path.relative_to(folder).as_posix()}", Body=path.read_bytes()
            )


def same_data(server, address, folder):
    """Whether a bucket contains exactly the files of a data folder."""
    found = {name.rpartition("/")[2]: content for name, content in objects(server, address).items()}
    wanted = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".verified.json"}
    for manifest in (found, wanted):
        plain = json.loads(manifest.pop("manifest.json"))
        for changing in ("raw_files", "options", "settings", "seal"):  # these depend on the paths of the raw files
            plain.pop(changing)
        manifest["manifest"] = plain
    return found == wanted


@pytest.mark.slow  # that generation and decoding read and write a store as they do a disk
def test_data_and_decoded_files(server, store, tiny_run, another_machine, tmp_path):
    upload(server, tiny_run.raw_dir, f"{store}/raw")
    of_data = ("--train_source", "--train_target", "--dev_", "--test_", "--problem", "--vocab")
    flags = [flag.replace(str(tiny_run.raw_dir), f"{store}/raw") for flag in tiny_run.train_flags]
    call(datagen, *(flag for flag in flags if flag.startswith(of_data)), data_dir=f"{store}/data")
    assert same_data(server, f"{store}/data/text2text_files", tiny_run.data_dir / "text2text_files")
    another_machine()
    upload(server, tiny_run.output_dir, f"{store}/run")
    stored = {"decode_from_file": f"{store}/raw/test.source", "decode_to_file": f"{store}/out/decoded"}
    assert f"written to {store}/out/decoded" in call(decoder, output_dir=f"{store}/run", **stored).err
    local = {"decode_from_file": tiny_run.raw_dir / "test.source", "decode_to_file": tmp_path / "decoded"}
    call(decoder, output_dir=tiny_run.output_dir, **local)
    assert list(objects(server, f"{store}/out").values()) == [(tmp_path / "decoded").read_bytes()]
    call(decoder, "--decode_split=test", output_dir=f"{store}/run", data_dir=f"{store}/data")


@pytest.mark.slow  # that a run in a store is resumed elsewhere with the same weights
def test_a_run_goes_on_on_another_machine(server, store, tiny_run, another_machine, tmp_path):
    upload(server, tiny_run.data_dir, f"{store}/data")
    flags = [flag for flag in tiny_run.train_flags if not flag.startswith(("--data_dir", "--local_eval"))]
    flags.append("--local_eval_frequency=2")
    call(trainer, *flags, output_dir=f"{store}/run", data_dir=f"{store}/data", train_steps=2)
    another_machine()
    for folder, data in ((f"{store}/run", f"{store}/data"), (tmp_path / "run", tiny_run.data_dir)):
        call(trainer, *flags, output_dir=folder, data_dir=data, train_steps=4)
    names = {name.partition("/")[2]: content for name, content in objects(server, f"{store}/run").items()}
    for path in (tmp_path / "run/checkpoints").rglob("*"):
        if path.is_file():
            assert names[path.relative_to(tmp_path / "run").as_posix()] == path.read_bytes(), path
    assert "lock" not in names
    assert json.loads(names["run.json"])["data_dir"] == f"{store}/data"
    assert {2, 4} <= {json.loads(line)["step"] for line in names["metrics.jsonl"].splitlines()}
    assert names["dev_outputs.jsonl"] == (tmp_path / "run/dev_outputs.jsonl").read_bytes()
    assert any(name.startswith("events/") for name in names)


@pytest.mark.slow  # that averages and exports go to a store, also after an attempt that was cut off
def test_averages_and_exports(server, store, tiny_run, another_machine):
    upload(server, tiny_run.output_dir, f"{store}/run")
    assert f"into {store}/run/checkpoints/averaged" in call(avg_all, output_dir=f"{store}/run", n=2).out
    another_machine()
    flags = ["--checkpoint=averaged", "--format=ctranslate2", "--parity_lines=3", f"--output_dir={store}/run"]
    s3(server).put_object(Bucket=store.removeprefix("s3://"), Key=f"served/{UNFINISHED}", Body=b"")
    call(exporter, *flags, export_dir=f"{store}/served")
    names = {name.rpartition("/")[2] for name in objects(server, f"{store}/served")}
    assert {"t2t_export.json", "README.md"} < names
    assert UNFINISHED not in names
    upload(server, tiny_run.raw_dir, f"{store}/mine")
    for name in ("served", "mine"):
        refuses(exporter, f"--export_dir={store}/{name}:", *flags, export_dir=f"{store}/{name}")
    assert len(objects(server, f"{store}/mine")) == len(list(tiny_run.raw_dir.iterdir()))


def test_what_is_not_there_is_one_line_and_so_are_missing_credentials(store, tmp_path, monkeypatch):
    lines = [f"--{split}_{side}={store}/{side}" for split in ("train", "dev") for side in ("source", "target")]
    for command, about, *flags in (
        (decoder, "s3://nowhere/run", "--output_dir=s3://nowhere/run"),
        (decoder, f"{store}/run --output_dir=", f"--output_dir={store}/run"),
        (datagen, "'nowhere'", "--problem=algorithmic_reverse_binary40", "--data_dir=s3://nowhere/d"),
        (decoder, f"{store}/none:", "--output_dir=run", f"--decode_from_file={store}/none"),
        (datagen, f"--train_source={store}/source", *lines, "--problem=text2text_files", f"--data_dir={tmp_path}/data"),
    ):
        refuses(command, about, *flags)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client._close()
    refuses(decoder, f"{store}/run/run.json: s3://", output_dir=f"{store}/run", status=1)


@pytest.mark.slow  # that the commands of the page, with environment variables alone, use a store
def test_the_commands_of_the_page(server, tmp_path):
    for name in ("corpora", "models"):
        s3(server).create_bucket(Bucket=name)
    for name in ("train.src", "train.tgt", "dev.src", "dev.tgt", "new.src"):
        text = "".join(f"line {n} of {n % 7}\n" for n in range(100))
        (tmp_path / name).write_text(text)
        s3(server).put_object(Bucket="corpora", Key=name, Body=text.encode())
    exports = "".join(f"export {name}={value}\n" for name, value in server.items())
    succeed(exports + shortened(block("storage", page=ROOT / "docs/scale.md")), tmp_path)
    assert objects(server, "s3://corpora/new.tgt")["new.tgt"].count(b"\n") == 100
    assert {name.partition("/")[0] for name in objects(server, "s3://models")} == {"base", "data"}
