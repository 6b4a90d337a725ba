"""`t2t-distill`: targets are the teacher's outputs; a killed process is resumed; a student trains on the data."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import sacrebleu

import t2t
from t2t.cli import datagen, distill, importer, trainer
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.errors import UserError
from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.files.output import PartialFile
from t2t.inference.hypothesis import Hypothesis
from t2t.inference.translator import Translator
from t2t.runs import distilling
from t2t.specs.constants import EOS_ID
from tests.integration.conftest import TINY
from tests.reference import language_models

pytestmark = pytest.mark.slow

PROBLEM = "text2text_files"


def targets_in(data_dir):
    return stored_in(data_dir, "targets")


def stored_in(data_dir, feature):
    folder = data_dir / PROBLEM
    reader = SplitReader(folder, read_manifest(folder), "train")
    values, lengths = reader.read(np.arange(len(reader)), feature)
    return [tuple(row.tolist()) for row in np.split(values, np.cumsum(lengths)[:-1])]


def lines(tiny_run, side):
    return (tiny_run.raw_dir / f"train.{side}").read_text().splitlines()


def usable(found):
    """The outputs that are complete and not empty."""
    return [one for one in found if one.ids[-1] == EOS_ID and len(one.ids) > 1]


@pytest.fixture(scope="module")
def distilled(tiny_run, tmp_path_factory):
    """Data with the best outputs of the run as targets."""
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
    """The choice by sentence BLEU, checked by brute force with sacreBLEU."""
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
    monkeypatch.setattr(distilling, "WINDOW", 90)
    with pytest.raises(KeyboardInterrupt):
        t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert not (tmp_path / PROBLEM).exists()
    t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert decoded == [90, 90, 90, 90, 30]
    assert targets_in(tmp_path) == targets_in(distilled)
    assert read_manifest(tmp_path / PROBLEM).distilled == read_manifest(distilled / PROBLEM).distilled
    assert [path.name for path in tmp_path.iterdir() if "targets" in path.name] == []
    t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert len(decoded) == 5, "existing targets are not decoded again"


def test_what_a_process_killed_at_its_very_end_leaves_is_removed(tiny_run, tmp_path, monkeypatch):
    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PartialFile, "discard", killed)
        with pytest.raises(KeyboardInterrupt):
            t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert (tmp_path / PROBLEM).exists()
    assert len(list(tmp_path.iterdir())) > 1
    sizes = t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)
    assert sizes["train"] == 300
    assert [path.name for path in tmp_path.iterdir()] == [PROBLEM]


def raw_flags(tiny_run):
    splits, sides = ("train", "dev"), ("source", "target")
    return [f"--{split}_{side}={tiny_run.raw_dir}/{split}.{side}" for split in splits for side in sides]


def test_tags_of_languages_are_not_stored(tiny_run, tmp_path):
    flags = [
        f"--problem={PROBLEM}", f"--data_dir={tmp_path / 'data'}", "--language_tags=en,de", "--target_language=de",
        "--vocab_size=60", *raw_flags(tiny_run),
    ]  # fmt: skip
    assert datagen.main(["t2t-datagen", *flags]) == 0
    model = ["--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={TINY}", "--eval_steps=0"]
    train = ["t2t-trainer", *flags, *model, f"--output_dir={tmp_path / 'run'}", "--train_steps=1", "--worker_cpu=1"]
    assert trainer.main(train) == 0
    t2t.distill(tmp_path / "run", tmp_path / "new", data_dir=tmp_path / "data")
    assert stored_in(tmp_path / "new", "inputs") == stored_in(tmp_path / "data", "inputs")


def test_codes_of_languages_are_not_stored(tiny_run, tmp_path, monkeypatch):
    """The model's outputs are given, so that there are empty and unfinished ones."""
    flags = ["--source_language=eng_Latn", "--target_language=deu_Latn"]
    language_models.write_model(tmp_path / "model", "nllb")
    run = tmp_path / "run"
    asked = ["t2t-import", "--from=huggingface", f"--model_dir={tmp_path / 'model'}", f"--output_dir={run}", *flags]
    assert importer.main(asked) == 0
    (vocabulary,) = (run / "vocab").glob("*.pieces")
    flags += [f"--problem={PROBLEM}", f"--vocab_file={vocabulary}", f"--data_dir={tmp_path / 'data'}"]
    assert datagen.main(["t2t-datagen", *flags, *raw_flags(tiny_run)]) == 0
    (code,) = t2t.load(run).problem.language_marks().output_start
    outputs = [(code, 7, 8, EOS_ID), (code, EOS_ID), (code, 7, 8)]

    def answers(self, sentences, *args, **kwargs):
        return [[Hypothesis("", outputs[n % 3], 0.0, 0.0)] for n in range(len(sentences))]

    monkeypatch.setattr(Translator, "translate_ids", answers)
    t2t.distill(run, tmp_path / "new", data_dir=tmp_path / "data")
    own = targets_in(tmp_path / "data")
    assert targets_in(tmp_path / "new") == [mine if n % 3 else (7, 8, EOS_ID) for n, mine in enumerate(own)]
    assert stored_in(tmp_path / "new", "inputs") == stored_in(tmp_path / "data", "inputs")
    kept = read_manifest(tmp_path / "new" / PROBLEM).distilled.references
    assert kept == {"empty": 100, "unfinished at its longest length": 100}


def test_two_processes_do_not_distil_into_one_folder(tiny_run, tmp_path):
    message = r"is being generated by another process .*; wait for it, or choose another distilled_data_dir=$"
    with exclusive_lock(lock_beside(tmp_path / PROBLEM)), pytest.raises(UserError, match=message):
        t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)


def test_a_link_in_the_place_of_the_data_is_found_before_decoding(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setattr(distilling, "_decode", None)
    (tmp_path / PROBLEM).symlink_to("nowhere")
    with pytest.raises(UserError, match=r"that is a link to nowhere, .* or choose another distilled_data_dir=, which"):
        t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir)


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
        "--local_eval_frequency=2", "--eval_steps=0", "--worker_cpu=1",
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
