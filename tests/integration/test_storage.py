"""Commands whose data, runs, files and exports are in an object store: a server of S3 on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from t2t.cli import avg_all, datagen, decoder, exporter, trainer
from t2t.errors import MachineError
from t2t.files.remote import client
from tests.readme import ROOT, block, execute, shortened
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


@pytest.mark.slow
def test_data_and_decoded_files(server, store, tiny_run, another_machine, capsys, tmp_path):
    upload(server, tiny_run.raw_dir, f"{store}/raw")
    of_data = ("--train_source", "--train_target", "--dev_", "--test_", "--problem", "--vocab")
    flags = [flag.replace(str(tiny_run.raw_dir), f"{store}/raw") for flag in tiny_run.train_flags]
    flags = [flag for flag in flags if flag.startswith(of_data)]
    assert datagen.main(["t2t-datagen", *flags, f"--data_dir={store}/data"]) == 0
    assert same_data(server, f"{store}/data/text2text_files", tiny_run.data_dir / "text2text_files")
    another_machine()
    upload(server, tiny_run.output_dir, f"{store}/run")
    stored = [f"--decode_from_file={store}/raw/test.source", f"--decode_to_file={store}/out/decoded"]
    assert decoder.main(["t2t-decoder", f"--output_dir={store}/run", *stored]) == 0
    assert f"written to {store}/out/decoded" in capsys.readouterr().err
    local = [f"--decode_from_file={tiny_run.raw_dir}/test.source", f"--decode_to_file={tmp_path}/decoded"]
    assert decoder.main(["t2t-decoder", f"--output_dir={tiny_run.output_dir}", *local]) == 0
    assert list(objects(server, f"{store}/out").values()) == [(tmp_path / "decoded").read_bytes()]
    split = ["--decode_split=test", f"--data_dir={store}/data"]
    assert decoder.main(["t2t-decoder", f"--output_dir={store}/run", *split]) == 0


@pytest.mark.slow
def test_a_run_goes_on_on_another_machine(server, store, tiny_run, another_machine, tmp_path):
    upload(server, tiny_run.data_dir, f"{store}/data")
    flags = [flag for flag in tiny_run.train_flags if not flag.startswith(("--data_dir", "--local_eval"))]
    flags += ["--local_eval_frequency=2"]

    def train(folder, data, steps):
        asked = [f"--output_dir={folder}", f"--data_dir={data}", f"--train_steps={steps}"]
        assert trainer.main(["t2t-trainer", *flags, *asked]) == 0

    train(f"{store}/run", f"{store}/data", 2)
    another_machine()
    train(f"{store}/run", f"{store}/data", 4)
    train(tmp_path / "run", tiny_run.data_dir, 4)
    names = {name.partition("/")[2]: content for name, content in objects(server, f"{store}/run").items()}
    for path in (tmp_path / "run/checkpoints").rglob("*"):
        if path.is_file():
            assert names[path.relative_to(tmp_path / "run").as_posix()] == path.read_bytes(), path
    assert "lock" not in names
    assert json.loads(names["run.json"])["data_dir"] == f"{store}/data"
    steps = [json.loads(line)["step"] for line in names["metrics.jsonl"].splitlines()]
    assert {2, 4} <= set(steps)
    assert names["dev_outputs.jsonl"] == (tmp_path / "run/dev_outputs.jsonl").read_bytes()
    assert any(name.startswith("events/") for name in names)


@pytest.mark.slow
def test_averages_and_exports(server, store, tiny_run, another_machine, capsys):
    upload(server, tiny_run.output_dir, f"{store}/run")
    assert avg_all.main(["t2t-avg-all", f"--output_dir={store}/run", "--n=2"]) == 0
    assert f"into {store}/run/checkpoints/averaged" in capsys.readouterr().out
    another_machine()
    asked = ["t2t-exporter", f"--output_dir={store}/run", "--checkpoint=averaged", f"--export_dir={store}/served/1"]
    asked += ["--format=ctranslate2", "--parity_lines=3"]
    assert exporter.main(asked) == 0
    names = [name.rpartition("/")[2] for name in objects(server, f"{store}/served/1")]
    assert {"t2t_export.json", "README.md"} < set(names)
    assert exporter.main(asked) == 2
    assert f"--export_dir={store}/served/1: it is there already; name another" in capsys.readouterr().err
    upload(server, tiny_run.raw_dir, f"{store}/mine")
    mine = [flag.replace("/served/1", "/mine") for flag in asked]
    assert exporter.main(mine) == 2
    assert len(objects(server, f"{store}/mine")) == len(list(tiny_run.raw_dir.iterdir()))


@pytest.mark.slow
def test_an_export_that_was_not_sent_whole_is_made_again(server, store, tiny_run, monkeypatch, capsys):
    asked = ["t2t-exporter", f"--output_dir={tiny_run.output_dir}", f"--export_dir={store}/served", "--parity_lines=3"]
    asked += ["--format=ctranslate2"]

    def gone(*arguments):
        raise MachineError("the store is gone")

    with monkeypatch.context() as patch:
        patch.setattr("t2t.export.exporting.publish_folder", gone)
        assert exporter.main(asked) == 1
    assert exporter.main(asked) == 0
    names = objects(server, f"{store}/served")
    assert "served/t2t_export.json" in names
    assert not any("unfinished" in name for name in names)


def test_what_is_not_there_is_one_line(store, capsys, tmp_path):
    (tmp_path / "in").write_text("1 2\n")
    for command, flags, status, line in [
        (decoder, ["--output_dir=s3://nowhere/run"], 2, "no run in s3://nowhere/run; train one with t2t-trainer"),
        (decoder, [f"--output_dir={store}/run"], 2, f"no run in {store}/run; train one with t2t-trainer --output_dir="),
        (datagen, ["--problem=algorithmic_reverse_binary40", "--data_dir=s3://nowhere/d"], 2, "there is no 'nowhere'"),
        (decoder, ["--output_dir=run", f"--decode_from_file={store}/none"], 2, f"{store}/none: there is no such file"),
        (
            datagen, ["--problem=text2text_files", f"--train_source={store}/a", f"--train_target={store}/b",
                      f"--dev_source={store}/a", f"--dev_target={store}/b", f"--data_dir={tmp_path}/data"],
            2, f"there is no such file: --train_source={store}/a",
        ),
    ]:  # fmt: skip
        assert command.main(["t2t", *flags]) == status
        err = capsys.readouterr().err
        assert line in err.splitlines()[-1], err
        assert len([one for one in err.splitlines() if "error" in one]) == 1


def test_without_credentials(store, capsys, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client._close()
    assert decoder.main(["t2t-decoder", f"--output_dir={store}/run"]) == 1
    assert f"{store}/run/run.json: no credentials for s3:// (" in capsys.readouterr().err


@pytest.mark.slow
def test_the_commands_of_the_page(server, tmp_path):
    for name in ("corpora", "models"):
        s3(server).create_bucket(Bucket=name)
    for name in ("train.src", "train.tgt", "dev.src", "dev.tgt", "new.src"):
        text = "".join(f"line {n} of {n % 7}\n" for n in range(100))
        (tmp_path / name).write_text(text)
        s3(server).put_object(Bucket="corpora", Key=name, Body=text.encode())
    exports = "".join(f"export {name}={value}\n" for name, value in server.items())
    done = execute("bash", exports + shortened(block("storage", page=ROOT / "docs/scale.md")), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert objects(server, "s3://corpora/new.tgt")["new.tgt"].count(b"\n") == 100
    assert {name.partition("/")[0] for name in objects(server, "s3://models")} == {"base", "data"}


def test_listing_names_loads_no_fsspec():
    code = "import sys, t2t.runs.data; sys.exit(not sys.modules.keys().isdisjoint(('fsspec', 'tensorflow')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
