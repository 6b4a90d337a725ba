"""`t2t-distill`: targets are the teacher's outputs; a killed process is resumed; a student trains on the data.

The tests that are marked slow decode the training split of the small run, or train.
"""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import sacrebleu

import t2t
from t2t.cli import datagen, distill, importer, trainer
from t2t.data.manifest import read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.files.output import PartialFile
from t2t.inference.hypothesis import Hypothesis
from t2t.inference.translator import Translator
from t2t.runs.distilling import distill_run
from t2t.runs.loading import load
from t2t.specs import EOS_ID
from tests.errors import refused
from tests.in_process import call, refuses
from tests.integration.conftest import TINY
from tests.reference import language_models

PROBLEM = "text2text_files"


def targets_in(data_dir):
    return stored_in(data_dir, "targets")


def stored_in(data_dir, feature):
    folder = data_dir / PROBLEM
    reader = SplitReader(folder, read_manifest(folder), "train")
    values, lengths = reader.read(np.arange(len(reader)), feature)
    return [tuple(row.tolist()) for row in np.split(values, np.cumsum(lengths)[:-1])]


def usable(found):
    """The outputs that are complete and not empty."""
    return [one for one in found if one.ids[-1] == EOS_ID and len(one.ids) > 1]


@pytest.fixture(scope="module")
def distilled(tiny_run, tmp_path_factory):
    """Data with the best outputs of the run as targets."""
    folder = tmp_path_factory.mktemp("distilled")
    call(distill, *tiny_run.flags, distilled_data_dir=folder)
    return folder


@pytest.fixture
def translate_by(monkeypatch):
    """Returns a function that makes another one answer in place of `Translator.translate_ids`."""
    return lambda answer: monkeypatch.setattr(Translator, "translate_ids", answer)


@pytest.mark.slow  # that a teacher's outputs, and nothing else, become targets
def test_targets_are_the_best_outputs_and_references_where_there_is_none(tiny_run, distilled):
    outputs = t2t.load(tiny_run.output_dir).translate(tiny_run.lines("train")[0])
    own, found = targets_in(tiny_run.data_dir), targets_in(distilled)
    good = [usable(best) for best in outputs]
    assert found == [best[0].ids if best else mine for best, mine in zip(good, own, strict=True)]
    assert 0 < sum(map(bool, good)) < 300, "there are outputs of both kinds"
    faults = Counter(
        "empty" if best.ids == (EOS_ID,) else "unfinished at its longest length"
        for (best,), kept in zip(outputs, good, strict=True)
        if not kept
    )
    how = read_manifest(distilled / PROBLEM).distilled
    assert how.references == faults
    assert (how.n_best, how.teacher["step"], how.search["beam_size"]) == (1, 40, 2)


@pytest.mark.slow  # the choice by sentence BLEU, checked by brute force with sacreBLEU
def test_of_several_the_nearest_to_the_reference_is_taken(tiny_run, tmp_path):
    sizes = t2t.distill(tiny_run.output_dir, tmp_path, data_dir=tiny_run.data_dir, n_best=4, hparams={"beam_size": 4})
    assert sizes == {"train": 300, "dev": 12, "test": 8}
    outputs = t2t.load(tiny_run.output_dir).translate(tiny_run.lines("train")[0], n_best=4, beam_size=4)
    own, expected, later = targets_in(tiny_run.data_dir), [], 0
    for found, reference, mine in zip(outputs, tiny_run.lines("train")[1], own, strict=True):
        scores = [(sacrebleu.sentence_bleu(one.text, [reference]).score, -k) for k, one in enumerate(usable(found))]
        best = -max(scores)[1] if scores else None
        expected.append(mine if best is None else usable(found)[best].ids)
        later += bool(best)
    assert targets_in(tmp_path) == expected
    assert later > 0, "not always is it the first"


@pytest.mark.slow  # that a killed attempt is resumed after its last window, with the same result
def test_a_killed_attempt_goes_on_after_its_last_window(tiny_run, distilled, tmp_path, translate_by):
    decoded, translate_ids, loaded = [], Translator.translate_ids, load(tiny_run.output_dir)

    def dies_in_the_third_window(self, sentences, *args, **kwargs):
        decoded.append(len(sentences))
        if len(decoded) == 3:
            raise KeyboardInterrupt
        return translate_ids(self, sentences, *args, **kwargs)

    translate_by(dies_in_the_third_window)
    asked = (loaded, str(tiny_run.data_dir), str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        distill_run(*asked, window=90)
    assert not (tmp_path / PROBLEM).exists()
    found = distill_run(*asked, window=90)
    assert decoded == [90, 90, 90, 90, 30]
    assert targets_in(tmp_path) == targets_in(distilled)
    assert found.distilled == read_manifest(distilled / PROBLEM).distilled
    assert [path.name for path in tmp_path.iterdir() if "targets" in path.name] == []
    with PartialFile(tmp_path / f".{PROBLEM}.targets", "of a process that was killed at its very end") as output:
        output.write(b"null\n", 1, {})
    assert distill_run(*asked).distilled == found.distilled
    assert len(decoded) == 5, "existing targets are not decoded again"
    assert [path.name for path in tmp_path.iterdir()] == [PROBLEM]


@pytest.mark.slow  # that tags of languages in front of inputs are not stored
def test_tags_of_languages_are_not_stored(tiny_run, tmp_path):
    flags = [f"--problem={PROBLEM}", f"--data_dir={tmp_path / 'data'}", "--language_tags=en,de", "--target_language=de"]
    flags += ["--vocab_size=60", *tiny_run.raw_flags]
    call(datagen, *flags)
    model = ["--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={TINY}", "--eval_steps=0"]
    call(trainer, *flags, *model, output_dir=tmp_path / "run", train_steps=1, worker_cpu=1)
    t2t.distill(tmp_path / "run", tmp_path / "new", data_dir=tmp_path / "data")
    assert stored_in(tmp_path / "new", "inputs") == stored_in(tmp_path / "data", "inputs")


@pytest.mark.slow  # that neither are codes of languages of an imported model, nor its empty and unfinished outputs
def test_codes_of_languages_are_not_stored(tiny_run, tmp_path, translate_by):
    flags, run = ["--source_language=eng_Latn", "--target_language=deu_Latn"], tmp_path / "run"
    language_models.write_model(tmp_path / "model", "nllb")
    call(importer, "--from=huggingface", *flags, model_dir=tmp_path / "model", output_dir=run)
    (vocabulary,) = (run / "vocab").glob("*.pieces")
    flags += [f"--problem={PROBLEM}", f"--vocab_file={vocabulary}", f"--data_dir={tmp_path / 'data'}"]
    call(datagen, *flags, *tiny_run.raw_flags)
    (code,) = t2t.load(run).problem.languages.marks().output_start
    outputs = [(code, 7, 8, EOS_ID), (code, EOS_ID), (code, 7, 8)]
    translate_by(lambda self, rows, *_, **__: [[Hypothesis("", outputs[n % 3], 0.0, 0.0)] for n in range(len(rows))])
    t2t.distill(run, tmp_path / "new", data_dir=tmp_path / "data")
    own = targets_in(tmp_path / "data")
    assert targets_in(tmp_path / "new") == [mine if n % 3 else (7, 8, EOS_ID) for n, mine in enumerate(own)]
    assert stored_in(tmp_path / "new", "inputs") == stored_in(tmp_path / "data", "inputs")
    kept = read_manifest(tmp_path / "new" / PROBLEM).distilled.references
    assert kept == {"empty": 100, "unfinished at its longest length": 100}


@pytest.mark.slow  # that the engine changes nothing
def test_ctranslate2_writes_the_same(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    for engine in ("tensorflow", "ctranslate2"):
        given = {"data_dir": tiny_run.data_dir, "hparams": {"decode_method": "greedy"}, "engine": engine}
        t2t.distill(run, tmp_path / engine, **given)
    assert targets_in(tmp_path / "tensorflow") == targets_in(tmp_path / "ctranslate2")
    assert read_manifest(tmp_path / "ctranslate2" / PROBLEM).distilled.search["engine"].startswith("CTranslate2")


@pytest.mark.slow  # that a student's run records its teacher, and is resumed from the distilled data alone
def test_a_student_trains_on_it_from_the_teachers_embeddings_and_records_it(tiny_run, distilled, tmp_path):
    hparams = TINY.replace("layer_prepostprocess_dropout=0.0", "effective_batch_size=0")
    hparams = hparams.replace("num_encoder_layers=1", "num_encoder_layers=2")
    flags = [
        f"--problem={PROBLEM}", "--model=transformer", "--hparams_set=transformer_multi30k_tiny_student",
        f"--hparams={hparams}", f"--output_dir={tmp_path}", f"--warm_start_from={tiny_run.output_dir}",
        "--local_eval_frequency=2", "--eval_steps=0", "--worker_cpu=1",
    ]  # fmt: skip
    printed = call(trainer, *flags, data_dir=distilled, train_steps=2).err
    assert "300 training examples, targets distilled from transformer transformer_tiny" in printed
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["distilled"][PROBLEM]["teacher"]["step"] == 40
    refuses(trainer, "data_fingerprint", *flags, data_dir=tiny_run.data_dir, train_steps=4)
    call(trainer, *flags, data_dir=distilled, train_steps=4)
    assert t2t.load(tmp_path).translate(["1 2"])


def test_numbers_of_outputs_that_cannot_be_are_refused(tiny_run, tmp_path):
    for n_best, about in ((3, (1, 2)), (0, (1,))):
        with refused(f"n_best={n_best}", *about):
            t2t.distill(tiny_run.output_dir, tmp_path / "new", data_dir=tiny_run.data_dir, n_best=n_best)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_being_written_or_leads_nowhere_is_refused_before_decoding(tiny_run, tmp_path):
    asked = (tiny_run.output_dir, tmp_path)
    with exclusive_lock(lock_beside(tmp_path / PROBLEM)), refused("distilled_data_dir=", PROBLEM):
        t2t.distill(*asked, data_dir=tiny_run.data_dir)
    before = sorted(tmp_path.iterdir())
    (tmp_path / PROBLEM).symlink_to("nowhere")
    with refused("nowhere", "distilled_data_dir="):
        t2t.distill(*asked, data_dir=tiny_run.data_dir)
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / PROBLEM]), "nothing was decoded"
