"""`t2t-distill`: targets are what the teacher writes; a killed attempt goes on; a student trains on the data."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import sacrebleu

import t2t
from t2t.cli import distill, trainer
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.errors import UserError
from t2t.inference.translator import Translator
from t2t.runs import distilling
from t2t.specs.constants import EOS_ID
from tests.integration.conftest import TINY

PROBLEM = "text2text_files"


def targets_in(data_dir):
    folder = data_dir / PROBLEM
    reader = SplitReader(folder, read_manifest(folder), "train")
    values, lengths = reader.read(np.arange(len(reader)), "targets")
    return [tuple(row.tolist()) for row in np.split(values, np.cumsum(lengths)[:-1])]


def lines(tiny_run, side):
    return (tiny_run.raw_dir / f"train.{side}").read_text().splitlines()


def usable(found):
    """The outputs that end, and say something."""
    return [one for one in found if one.ids[-1] == EOS_ID and len(one.ids) > 1]


@pytest.fixture(scope="module")
def distilled(tiny_run, tmp_path_factory):
    """The best outputs of the run, made by the command."""
    folder = tmp_path_factory.mktemp("distilled")
    assert distill.main(["t2t-distill", *tiny_run.flags, f"--distilled_data_dir={folder}"]) == 0
    return folder


def test_targets_are_the_best_outputs_and_references_where_there_is_none(tiny_run, distilled):
    outputs = t2t.load(tiny_run.output_dir).translate(lines(tiny_run, "source"))
    own, found = targets_in(tiny_run.data_dir), targets_in(distilled)
    good = [usable(best) for best in outputs]
    assert found == [best[0].ids if best else mine for best, mine in zip(good, own, strict=True)]
    assert 20 < sum(map(bool, good)) < 280
    faults = Counter(
        "empty" if best.ids == (EOS_ID,) else "unfinished at its longest length"
        for (best,), kept in zip(outputs, good, strict=True)
        if not kept
    )
    how = read_manifest(distilled / PROBLEM).distilled
    assert how.references == faults
    assert (how.n_best, how.teacher["step"], how.search["beam_size"]) == (1, 40, 2)


def test_of_several_the_nearest_to_the_reference_is_taken(tiny_run, tmp_path):
    """As sacreBLEU's own function finds it by brute force."""
    sizes = t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir, n_best=4, hparams={"beam_size": 4})
    assert sizes == {"train": 300, "dev": 12, "test": 8}
    outputs = t2t.load(tiny_run.output_dir).translate(lines(tiny_run, "source"), n_best=4, beam_size=4)
    own, expected, later = targets_in(tiny_run.data_dir), [], 0
    for found, reference, mine in zip(outputs, lines(tiny_run, "target"), own, strict=True):
        scores = [(sacrebleu.sentence_bleu(one.text, [reference]).score, -k) for k, one in enumerate(usable(found))]
        place = -max(scores)[1] if scores else None
        expected.append(mine if place is None else usable(found)[place].ids)
        later += bool(place)
    assert targets_in(tmp_path) == expected
    assert later > 20, "often it is not the first"


def test_a_killed_attempt_goes_on_after_its_last_window(tiny_run, distilled, tmp_path, monkeypatch):
    decoded = []
    translate_ids = Translator.translate_ids

    def dies_in_the_third_window(self, sentences, *args, **kwargs):
        decoded.append(len(sentences))
        if len(decoded) == 3:
            raise KeyboardInterrupt
        return translate_ids(self, sentences, *args, **kwargs)

    monkeypatch.setattr(Translator, "translate_ids", dies_in_the_third_window)
    monkeypatch.setattr(distilling.distill_run, "__defaults__", (1, 90))
    with pytest.raises(KeyboardInterrupt):
        t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert not (tmp_path / PROBLEM).exists()
    t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert decoded == [90, 90, 90, 90, 30]
    assert targets_in(tmp_path) == targets_in(distilled)
    assert read_manifest(tmp_path / PROBLEM).distilled == read_manifest(distilled / PROBLEM).distilled
    assert [path.name for path in tmp_path.iterdir() if "targets" in path.name] == []
    t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert len(decoded) == 5, "what is there already is not decoded again"


def test_ctranslate2_writes_the_same(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    for engine in ("tensorflow", "ctranslate2"):
        given = {"data_dir": tiny_run.data_dir, "hparams": {"decode_method": "greedy"}, "engine": engine}
        t2t.distill(run, tmp_path / engine, **given)
    assert targets_in(tmp_path / "tensorflow") == targets_in(tmp_path / "ctranslate2")
    assert read_manifest(tmp_path / "ctranslate2" / PROBLEM).distilled.search["engine"].startswith("CTranslate2")


def test_a_student_trains_on_it_from_the_teachers_embeddings_and_records_it(tiny_run, distilled, tmp_path, capsys):
    names = [f"--problem={PROBLEM}", "--model=transformer", "--hparams_set=transformer_multi30k_tiny_student"]
    hparams = TINY.replace("layer_prepostprocess_dropout=0.0", "num_encoder_layers=2,effective_batch_size=0")
    flags = [
        *names, f"--hparams={hparams}", f"--output_dir={tmp_path}", f"--warm_start_from={tiny_run.output_dir}",
        "--local_eval_frequency=2", "--eval_steps=1", "--worker_cpu=1",
    ]  # fmt: skip
    assert trainer.main(["t2t-trainer", *flags, f"--data_dir={distilled}", "--train_steps=2"]) == 0
    assert "300 training examples, targets distilled from transformer transformer_tiny" in capsys.readouterr().err
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["distilled"][PROBLEM]["teacher"]["step"] == 40
    assert t2t.load(tmp_path).translate(["1 2"])
    assert trainer.main(["t2t-trainer", *flags, f"--data_dir={tiny_run.data_dir}", "--train_steps=4"]) == 2
    assert "belongs to another run: data_fingerprint: asked " in capsys.readouterr().err
    assert trainer.main(["t2t-trainer", *flags, f"--data_dir={distilled}", "--train_steps=4"]) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"distilled_data_dir": ""}, r"^distilled_data_dir=: not given; name the folder that the distilled data goes"),
        ({"n_best": 3}, r"^n_best=3: beam search of width 2 has from 1 to 2 hypotheses; ask for that many or raise"),
        ({"n_best": 0}, r"^n_best=0: it is not a whole number of at least 1; give one"),
        ({"data_dir": "nowhere"}, f"^no data of {PROBLEM} in nowhere; make it with"),
    ],
)
def test_mistakes_are_one_line(given, message, tiny_run, tmp_path):
    asked = {"distilled_data_dir": tmp_path / "new", "data_dir": tiny_run.data_dir, **given}
    with pytest.raises(UserError, match=message):
        t2t.distill(tiny_run.output_dir, **asked)
    assert not (tmp_path / "new").exists()
