"""Runs of adapters through the commands: trained on a small run, then decoded, evaluated, averaged and served.

Exports and the answers of a server are tested by the blocks `adapters` and `serve-adapters`, see `test_readme.py`.
"""

import shutil

import numpy as np
import pytest

import t2t
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import avg_all, decoder, eval, server, trainer
from t2t.cli.common import parse
from tests.errors import refused
from tests.in_process import call, refuses

TEXTS = ["1 2 3", "7 7 1", "4"]


@pytest.fixture(scope="module")
def base(tiny_run, tmp_path_factory):
    """A copy of the small run."""
    return shutil.copytree(tiny_run.output_dir, tmp_path_factory.mktemp("adapted") / "base")


@pytest.fixture(scope="module")
def adapted(tiny_run, base):
    """A run of four updates of adapters of the copy."""
    call(trainer, *adapting(tiny_run, base.parent), warm_start_from=base)
    return base.parent / "run"


def adapting(tiny_run, folder, train_steps=4, targets="query_kernel|value_kernel|ffn"):
    """Returns a command that trains adapters in `folder / "run"`, with a checkpoint every two updates."""
    shared = [flag for flag in tiny_run.train_flags if not flag.startswith(("--local_eval_frequency", "--eval_steps"))]
    own = [f"--train_steps={train_steps}", "--local_eval_frequency=2", f"--output_dir={folder / 'run'}"]
    return [*shared, *own, "--schedule=train", f"--hparams=lora_rank=2,lora_targets={targets}"]


def weights_of(folder, which="latest"):
    return CheckpointStore(folder / "checkpoints").load_model(which).weights


@pytest.mark.slow  # that commands and the API add the same adapters, alone or to a base that they share in memory
def test_commands_take_a_run_of_adapters_as_any_other_and_several_share_a_base(tiny_run, base, adapted, tmp_path):
    (tmp_path / "texts").write_text("\n".join(TEXTS) + "\n")
    files = {"decode_from_file": tmp_path / "texts", "decode_to_file": tmp_path / "out"}
    call(decoder, output_dir=adapted, worker_cpu=1, **files)
    alone = t2t.load(adapted)
    expected = alone.translate(TEXTS)
    assert (tmp_path / "out").read_text().splitlines() == [found[0].text for found in expected]
    for variable in alone.model.variables:
        np.testing.assert_array_equal(np.asarray(variable), weights_of(adapted)[variable.path])
    translator = t2t.load(base, adapters={"law": adapted, "early": adapted / "checkpoints/step-00000002"})
    assert alone.score([("1 2 3", "3 2 1")]) != translator.score([("1 2 3", "3 2 1")])
    early = t2t.load(adapted, 2).translate(TEXTS)
    for name, own in (("law", expected), ("early", early)):
        found = translator.adapters[name].translate(TEXTS)
        assert [one[0].text for one in found] == [one[0].text for one in own]
        np.testing.assert_allclose([one[0].score for one in found], [one[0].score for one in own], rtol=1e-5)
    models = [one.model for one in (translator, *translator.adapters.values())]
    held = {id(variable): variable for model in models for variable in model.variables}.values()
    whole, factors = weights_of(base), CheckpointStore(adapted / "checkpoints").load().model
    sizes = [array.size for array in (*whole.values(), *factors.values(), *factors.values())]
    assert sum(v.value.shape.num_elements() for v in held) == sum(sizes)
    for variable in translator.model.variables:
        np.testing.assert_array_equal(np.asarray(variable), whole[variable.path])
    printed = call(eval, output_dir=adapted, data_dir=tiny_run.data_dir).out
    assert "12 of 12 dev examples of text2text_files, step-00000004 (4 updates)\nBLEU = " in printed


def test_an_average_is_the_mean_of_the_merged_weights_and_names_no_base(adapted, tmp_path):
    run = shutil.copytree(adapted, tmp_path / "run")
    call(avg_all, output_dir=run, n=2)
    assert "adapters" not in CheckpointStore(run / "checkpoints").load("averaged").state
    steps = [weights_of(run, step) for step in (2, 4)]
    for path, array in weights_of(run, "averaged").items():
        np.testing.assert_allclose(array, (steps[0][path] + steps[1][path]) / 2, rtol=1e-6, atol=1e-7)


@pytest.mark.slow  # that a service follows a base and its adapters that are trained on
def test_newer_adapters_are_loaded_on_the_base_that_a_service_has_reloaded(tiny_run, adapted, base, tmp_path):
    folders = {name: shutil.copytree(source, tmp_path / name) for name, source in (("base", base), ("run", adapted))}
    flags = [f"--output_dir=base={folders['base']}", f"--adapters=law={folders['run']}", "--engine=tensorflow"]
    values = parse(server.build_flags(), ["t2t-server", *flags], "")
    served = server.build_models(values, {"base": str(folders["base"])}, {"law": str(folders["run"])})
    call(trainer, *tiny_run.train_flags, output_dir=folders["base"], train_steps=42, schedule="train")
    shutil.rmtree(folders["run"])
    call(trainer, *adapting(tiny_run, tmp_path), warm_start_from=folders["base"])
    with refused("--adapters=", "step-00000042"):
        served[1].source.load()
    assert served[0].source.load().step == 42
    newer = served[1].source.load()
    assert newer.fingerprint != served[1].fingerprint


def test_adapters_of_another_base_are_refused(tiny_run, base, adapted):
    checkpoints = [base / f"checkpoints/step-000000{step}" for step in (40, 20)]
    for about, output_dir, given in (
        ([f"adapters={adapted}", *checkpoints], base, {"checkpoint": "20", "adapters": {"law": adapted}}),
        (["adapters=", tiny_run.output_dir], base, {"adapters": {"law": tiny_run.output_dir}}),
        (["adapters", "TensorFlow"], base, {"adapters": {"law": adapted}, "engine": "ctranslate2"}),
        (["output_dir="], [base, base], {"adapters": {"law": adapted}}),
    ):
        with refused(*about):
            t2t.load(output_dir, **given)


def test_a_server_names_what_is_wrong_with_adapters(base, adapted):
    for about, *flags in (
        ("'run' --adapters=", f"--adapters={adapted}", f"--adapters={adapted}"),
        ("'base' --adapters=", f"--adapters=base={adapted}"),
        ("--adapters --engine=ctranslate2", f"--adapters={adapted}", "--engine=ctranslate2"),
        ("/nowhere", "--adapters=law=/nowhere"),
    ):
        refuses(server, about, *flags, port=0, output_dir=base)


def test_without_the_base_commands_end_with_a_line(tiny_run, base, adapted, tmp_path):
    run, lost = shutil.copytree(adapted, tmp_path / "run"), base.rename(base.with_name("elsewhere"))
    about = f"{run}/checkpoints/step-00000004 {base}/checkpoints/step-00000040 --output_dir"
    try:
        refuses(decoder, about, output_dir=run, decode_from_file=tiny_run.raw_dir / "test.source")
        refuses(trainer, about, *adapting(tiny_run, tmp_path, train_steps=6))
    finally:
        lost.rename(base)


def test_adapters_without_a_base_and_patterns_without_a_match_are_refused(tiny_run, tmp_path):
    start = {"warm_start_from": tiny_run.output_dir}
    refuses(trainer, "lora_rank=2", *adapting(tiny_run, tmp_path))
    refuses(trainer, "lora_targets=nowhere", *adapting(tiny_run, tmp_path, targets="nowhere"), **start)
    assert not (tmp_path / "run/run.json").exists()
    untrained = adapting(tiny_run, tmp_path, train_steps=0)
    assert "adapters: rank 2 on " in call(trainer, *untrained, dry_run=True, **start).err
