"""Commands with Apache Beam: the same bytes as on one machine, and error messages."""

import os
import sys

import pytest

from t2t.cli import datagen, decoder
from tests.in_process import call, refuses

PROCESSES = "--beam_options=--runner=DirectRunner --direct_num_workers=2 --direct_running_mode=multi_processing"
HERE = "--beam_options=--runner=DirectRunner"

PLUG_IN = '''
import time

from t2t import Text2Text, register_problem
from t2t.errors import UserError


@register_problem
class BeamCities(Text2Text):
    """Names of cities in several shards."""

    vocab_size = 300
    splits = ("train", "dev")

    def shards(self, split, source):
        return 5 if split == "train" else 1

    def generate_samples(self, split, source):
        for shard in [source.shard] if source.shards > 1 else range(self.shards(split, source)):
            for number in range(50):
                city = source.rng.choice(["Oslo", "Rome", "Lima", "Bern"])
                yield {"inputs": f"{city} {number}", "targets": f"{number} {city} {shard}"}
            if (source.tmp_dir / f"stop-{split}-{shard}").exists() and source.enough_bytes is None:
                while not list(source.work_dir.glob("*/record.json")):  # of another shard, by another worker
                    time.sleep(0.05)
                raise UserError(f"the mayor of shard {shard} is missing; ask the council")
'''


@pytest.fixture
def cities(tmp_path, monkeypatch):
    """Flags of a plug-in's problem, with relative paths."""
    (tmp_path / "my_cities").mkdir()
    (tmp_path / "raw").mkdir()
    (tmp_path / "my_cities/__init__.py").write_text(PLUG_IN)
    monkeypatch.chdir(tmp_path)
    return ["--t2t_usr_dir=my_cities", "--problem=beam_cities", "--tmp_dir=raw"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("command", [datagen, decoder])
def test_without_the_package_one_line_says_how_to_install_it(cities, tmp_path, monkeypatch, command):
    for name in [name for name in sys.modules if name.startswith(("apache_beam", "t2t.pipelines"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    (tmp_path / "in").write_text("a\n")
    flags = cities if command == datagen else ["--decode_from_file=in", "--decode_to_file=out", "--output_dir=run"]
    refuses(command, "--beam_options apache_beam 't2t-keras[beam]'", *flags, HERE)


@pytest.mark.slow  # that workers of Apache Beam make the same bytes, and resume after an error of one of them
def test_data_of_a_plug_in_are_those_of_processes_and_go_on_after_an_error(cities, tmp_path):
    call(datagen, *cities, data_dir="local")
    (tmp_path / "raw/stop-train-3").touch()
    printed = refuses(datagen, "'train' 3 5 mayor", *cities, PROCESSES, data_dir="beam").err
    assert "Traceback" not in printed
    assert "Worker" not in printed
    (tmp_path / "raw/stop-train-3").unlink()
    finished = {path.parent.name for path in tmp_path.glob("beam/.*.partial/work/*/record.json")}
    assert finished
    printed = call(datagen, *cities, PROCESSES, data_dir="beam").err
    assert f"resuming: {len(finished)} of 6 shards are finished" in printed
    assert "counters of Apache Beam: 300 examples read, 300 examples written" in printed
    assert contents(tmp_path / "beam/beam_cities") == contents(tmp_path / "local/beam_cities")
    assert os.listdir(tmp_path / "beam") == ["beam_cities"]
