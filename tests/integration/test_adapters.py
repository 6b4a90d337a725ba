"""Runs of adapters through the commands: trained on a small run, then decoded, evaluated, averaged and exported."""

import json
import shutil
import urllib.request

import numpy as np
import pytest

import t2t
from benchmarks.harness.load import Server
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import avg_all, decoder, eval, exporter, server, trainer
from tests.integration.conftest import PATIENT

LORA = {"lora_rank": 2, "lora_targets": "query_kernel|value_kernel|ffn"}


@pytest.fixture
def without_base(adapted):
    """Moves the base run away during the test."""
    base = adapted.parent / "base"
    base.rename(adapted.parent / "elsewhere")
    yield
    (adapted.parent / "elsewhere").rename(base)


@pytest.fixture(scope="module")
def adapted(tiny_run, tmp_path_factory):
    """A run of four updates of adapters, with a copy of the small run as its base."""
    folder = tmp_path_factory.mktemp("adapted")
    shutil.copytree(tiny_run.output_dir, folder / "base")
    assert trainer.main(adapting(tiny_run, folder, f"--warm_start_from={folder / 'base'}")) == 0
    return folder / "run"


def adapting(tiny_run, folder, *flags, train_steps=4, **hparams):
    """Returns a command that trains adapters in `folder / "run"`, with a checkpoint every two updates."""
    settings = ",".join(f"{name}={value}" for name, value in {**LORA, **hparams}.items())
    shared = [flag for flag in tiny_run.train_flags if not flag.startswith("--local_eval_frequency")]
    own = [f"--train_steps={train_steps}", "--local_eval_frequency=2", f"--output_dir={folder / 'run'}"]
    return ["t2t-trainer", *shared, *own, f"--hparams={settings}", *flags]


def weights_of(folder, which="latest"):
    return CheckpointStore(folder / "checkpoints").load_model(which).weights


@pytest.mark.slow
def test_commands_take_a_run_of_adapters_as_any_other(tiny_run, adapted, tmp_path, capsys):
    inputs, outputs = tiny_run.raw_dir / "test.source", tmp_path / "outputs"
    files = [f"--decode_from_file={inputs}", f"--decode_to_file={outputs}"]
    assert decoder.main(["t2t-decoder", f"--output_dir={adapted}", "--worker_cpu=1", *files]) == 0
    translator = t2t.load(adapted)
    lines = inputs.read_text().splitlines()
    assert outputs.read_text().splitlines() == [found[0].text for found in translator.translate(lines)]
    for variable in translator.model.variables:
        np.testing.assert_array_equal(np.asarray(variable), weights_of(adapted)[variable.path])
    pairs = [("1 2 3", "3 2 1"), ("7", "7")]
    assert translator.score(pairs) != t2t.load(adapted.parent / "base").score(pairs)
    assert eval.main(["t2t-eval", f"--output_dir={adapted}", f"--data_dir={tiny_run.data_dir}"]) == 0
    assert "12 of 12 dev examples of text2text_files, step-00000004 (4 updates)\nBLEU = " in capsys.readouterr().out


@pytest.mark.slow
def test_an_average_is_the_mean_of_the_merged_weights_and_names_no_base(adapted, tmp_path):
    shutil.copytree(adapted, tmp_path / "run")
    assert avg_all.main(["t2t-avg-all", f"--output_dir={tmp_path / 'run'}", "--n=2"]) == 0
    assert "adapters" not in CheckpointStore(tmp_path / "run/checkpoints").load("averaged").state
    steps = [weights_of(tmp_path / "run", step) for step in (2, 4)]
    for path, array in weights_of(tmp_path / "run", "averaged").items():
        np.testing.assert_allclose(array, (steps[0][path] + steps[1][path]) / 2, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_several_runs_of_adapters_share_a_base_in_memory(tiny_run, adapted, tmp_path):
    early = adapted / "checkpoints/step-00000002"
    translator = t2t.load(adapted.parent / "base", adapters={"law": adapted, "early": early})
    texts = ["1 2 3", "7 7 1", "4"]
    for name, checkpoint in (("law", "latest"), ("early", 2)):
        found, alone = translator.adapters[name].translate(texts), t2t.load(adapted, checkpoint).translate(texts)
        assert [one[0].text for one in found] == [one[0].text for one in alone]
        np.testing.assert_allclose([one[0].score for one in found], [one[0].score for one in alone], rtol=1e-5)
    models = [one.model for one in (translator, *translator.adapters.values())]
    held = {id(variable): variable for model in models for variable in model.variables}.values()
    base, factors = weights_of(adapted.parent / "base"), CheckpointStore(adapted / "checkpoints").load().model
    assert sum(v.value.shape.num_elements() for v in held) == sum(
        array.size for array in (*base.values(), *factors.values(), *factors.values())
    )
    for variable in translator.model.variables:
        np.testing.assert_array_equal(np.asarray(variable), base[variable.path])


def test_adapters_of_another_base_are_refused(tiny_run, adapted, tmp_path):
    base, other = adapted.parent / "base", tiny_run.output_dir
    with pytest.raises(t2t.UserError) as error:
        t2t.load(base, "20", adapters={"law": adapted})
    assert str(error.value) == (
        f"adapters={adapted}: they change the weights of {base}/checkpoints/step-00000040, and what is loaded is "
        f"{base}/checkpoints/step-00000020; load that checkpoint as the base, or name {adapted} in "
        "output_dir= by itself"
    )
    with pytest.raises(t2t.UserError, match=r"adapters=.*: checkpoint .* holds whole weights; name a run that trained"):
        t2t.load(base, adapters={"law": other})
    with pytest.raises(t2t.UserError, match="adapters share weights that TensorFlow holds; leave one of them out"):
        t2t.load(base, adapters={"law": adapted}, engine="ctranslate2")
    with pytest.raises(t2t.UserError, match="they change the weights of one run, and output_dir= names several"):
        t2t.load([base, base], adapters={"law": adapted})


@pytest.mark.slow
def test_a_server_answers_with_the_adapters_that_a_request_names(tiny_run, adapted):
    texts = ["1 2 3", "7 7 1", "4"]
    runs = {"base": adapted.parent / "base", "law": adapted}
    with Server("t2t-server", PATIENT, f"--output_dir=base={runs['base']}", f"--adapters=law={adapted}") as served:
        for name, run in runs.items():
            body = json.dumps({"text": texts, "model": name}).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/translate", body, timeout=1200) as answer:
                found = [one["outputs"][0]["text"] for one in json.load(answer)["translations"]]
            assert found == [one[0].text for one in t2t.load(run).translate(texts)]
        body = json.dumps({"model": "law", "prompt": texts[0]}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/v1/completions", body, timeout=1200) as answer:
            assert json.load(answer)["choices"][0]["text"] == found[0]


def test_a_server_names_what_is_wrong_with_adapters(tiny_run, adapted, capsys):
    base = adapted.parent / "base"
    for flags, said in (
        (
            [f"--adapters={adapted}", f"--adapters={adapted}"],
            "two runs have the name 'run'; name them apart, --adapters=",
        ),
        ([f"--adapters=base={adapted}"], "two runs have the name 'base'; name them apart, --adapters=NAME=RUN"),
        ([f"--adapters={adapted}", "--engine=ctranslate2"], "--adapters with --engine=ctranslate2: adapters share "),
        (["--adapters=law=/nowhere"], "/nowhere"),
    ):
        assert server.main(["t2t-server", "--port=0", f"--output_dir={base}", *flags]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_exported_is_merged(tiny_run, adapted, tmp_path, capsys):
    flags = [f"--data_dir={tiny_run.data_dir}", f"--export_dir={tmp_path / 'model'}", "--format=ctranslate2"]
    assert exporter.main(["t2t-exporter", f"--output_dir={adapted}", *flags]) == 0
    assert (tmp_path / "model/model.bin").is_file()  # exporting compares it with the run first


@pytest.mark.usefixtures("without_base")
def test_without_the_base_commands_end_with_a_line(tiny_run, adapted, tmp_path, capsys):
    run, base = shutil.copytree(adapted, tmp_path / "run"), adapted.parent / "base"
    decoding = ["t2t-decoder", f"--output_dir={run}", f"--decode_from_file={tiny_run.raw_dir / 'test.source'}"]
    resuming = adapting(tiny_run, tmp_path, train_steps=6)
    for main, command in ((decoder.main, decoding), (trainer.main, resuming)):
        assert main(command) == 2
        assert (
            f"checkpoint {run}/checkpoints/step-00000004 holds adapters for the weights of "
            f"{base}/checkpoints/step-00000040, which is missing; restore that from a copy, or adapt another "
            f"checkpoint in a new --output_dir"
        ) in capsys.readouterr().err


def test_adapters_without_a_base_and_patterns_without_a_match_are_refused(tiny_run, tmp_path, capsys):
    assert trainer.main(adapting(tiny_run, tmp_path)) == 2
    assert "hparam lora_rank=2: adapters change the weights of a trained model; name " in capsys.readouterr().err
    start = f"--warm_start_from={tiny_run.output_dir}"
    assert trainer.main(adapting(tiny_run, tmp_path, start, lora_targets="nowhere")) == 2
    assert "hparam lora_targets=nowhere: it matches none of the " in capsys.readouterr().err
    assert not (tmp_path / "run/run.json").exists()


def test_a_dry_run_counts_what_is_trained(tiny_run, tmp_path, capsys):
    assert trainer.main(adapting(tiny_run, tmp_path, f"--warm_start_from={tiny_run.output_dir}", "--dry_run")) == 0
    assert "adapters: rank 2 on " in capsys.readouterr().err
