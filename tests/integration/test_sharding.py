"""`t2t-decoder --shard` and `--merge` with a trained run: the output of one machine, whatever the order and flags."""

import os
import random
import re
import shlex
import subprocess
import sys

import pytest

from t2t.cli import decoder
from tests.in_process import call

SAMPLING = ("--decode_method=sample", "--sampling_temperature=0.9", "--random_seed=3")
N_BEST = ("--n_best=2", "--output_format=jsonl")


@pytest.fixture
def folder(tmp_path):
    """A folder with 37 lines of digits, one of them blank and one too long, and target prefixes."""
    rng = random.Random(5)
    rows = [" ".join(rng.choices("0123456789", k=rng.randint(1, 9))) for _ in range(37)]
    rows[3], rows[20] = " ", " ".join(rng.choices("0123456789", k=60))
    (tmp_path / "in").write_text("".join(row + "\n" for row in rows))
    (tmp_path / "begin").write_text("".join(f"{n % 10}\n" if n % 3 else "\n" for n in range(37)))
    return tmp_path


@pytest.fixture
def run(tiny_run, folder):
    """Runs the command on the run, to a file of the folder."""

    def run(target, *flags, source="decode_from_file", expected=0):
        files = {source: folder / "in", "decode_to_file": folder / target, "max_input_length": 24, "decode_window": 5}
        return call(decoder, *flags, output_dir=tiny_run.output_dir, **files, status=expected).err

    return run


@pytest.mark.slow  # that whichever search it is, its shards are the file of one machine, whatever the order
@pytest.mark.parametrize(("shards", "flags"), [(2, SAMPLING), (3, N_BEST)], ids=["sample", "beam"])
def test_shards_are_the_file_of_one_machine_and_a_missing_one_is_named_with_its_command(run, folder, shards, flags):
    alone = run("one", *flags)
    for number in range(shards - 1, -1, -1):
        if number != 1:
            run("out", f"--shard={number}/{shards}", *flags)
    refused = run("out", "--merge", *flags, expected=2)
    assert f"out.shard-00001-of-0000{shards}; make it with: t2t-decoder " in refused
    call(decoder, *shlex.split(refused.partition("make it with: ")[2])[1:])
    merged = run("out", "--merge", *flags)
    assert (folder / "out").read_bytes() == (folder / "one").read_bytes()
    assert (folder / "one").read_bytes().count(b"\n") == 37
    assert "warning: cut to the 24 ids that max_input_length allows: 1 line (number 21)" in alone
    assert "warning: cut to the most ids that are taken: 1 line (number 21)" in merged
    assert re.search(rf"^decoded 37 lines, [\d,]+ tokens; merged into {folder / 'out'}$", merged, re.M)
    assert sorted(os.listdir(folder)) == [".out.merged.json", "begin", "in", "one", "out"]


@pytest.mark.slow  # the same of another engine, of what is written beside outputs, and of scores and alignments
@pytest.mark.parametrize(
    ("source", "shards", "flags"),
    [
        ("decode_from_file", 10, ("--decode_beam_size=1", "--engine=ctranslate2")),  # two more shards than windows
        ("score_file", 3, ()),
        ("align_file", 3, ()),
        *(
            pytest.param("decode_from_file", 10, flags, marks=pytest.mark.exhaustive)
            for flags in (("--alignments", "--output_format=tsv"), ("--target_prefix_file=begin",))
        ),
    ],
)
def test_whatever_is_asked_for(run, folder, source, shards, flags, monkeypatch):
    monkeypatch.chdir(folder)
    if source != "decode_from_file":
        rows = (folder / "in").read_text().splitlines()
        (folder / "in").write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows))
    run("one", *flags, source=source)
    for number in random.Random(shards).sample(range(shards), shards):
        run("out", f"--shard={number}/{shards}", *flags, source=source)
    run("out", "--merge", *flags, source=source)
    assert (folder / "out").read_bytes() == (folder / "one").read_bytes()


def test_shards_are_decoded_by_tensorflow_by_default_and_merging_starts_none(run, folder, monkeypatch):
    monkeypatch.delenv("T2T_ENGINE")
    assert "CTranslate2" not in run("out", "--shard=0/1")
    flags = f"'--decode_from_file={folder / 'in'}', '--decode_to_file={folder / 'out'}', '--output_dir=none', '--merge'"
    code = f"import sys; from t2t.cli.decoder import main; print(main(['', {flags}]), 'tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 False\n", done.stderr
