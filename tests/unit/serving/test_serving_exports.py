"""Served exports behave like their runs, within the settings that were fixed at export."""

import json

import pytest
import tensorflow as tf

from t2t.cli import insight, server
from t2t.cli.server import named_runs
from t2t.formats.exporter import ExportJob, is_export
from t2t.formats.exporting import export
from t2t.inference.output_constraints import OutputTerms
from t2t.serving.exports import ServedExport
from t2t.serving.models import ServedModel
from t2t.serving.requests import Query
from tests.errors import refused
from tests.in_process import check_refused
from tests.unit.serving.conftest import serving

TEXTS = ["a b c", "", "h g f e"]


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "letters/7"
    job = ExportJob(folder=folder, format="saved_model", n_best=2, origin={"step": 40})
    export(translator, job, TEXTS)
    return folder


@pytest.mark.slow
def test_an_export_answers_as_its_run(folder, translator):
    served = ServedExport("letters", folder)
    with serving(served) as (client, _):
        asked = client.post("/v1/models/letters/versions/40:predict", json={"instances": TEXTS})
        plain = client.post("/translate", json={"text": "a b c", "n_best": 2}).json()
        many = client.post("/translate", json={"text": "a", "n_best": 3})
        fixed = client.post("/translate", json={"text": "a", "alpha": 1.0})
        prompt = {"prompt": "a b c", "stream": True}
        asked_twice = {"prompt": TEXTS, "n": 2}
        usage = client.post("/v1/completions", json=asked_twice).json()["usage"]
        events = client.post("/v1/completions", json=prompt).text.split("\n\n")
        limited = client.post("/v1/completions", json={**prompt, "max_tokens": 99, "temperature": 1}).json()
        told = client.get("/").json()["models"]
    with serving(ServedModel("letters", translator, 40)) as (client, _):
        assert usage == client.post("/v1/completions", json=asked_twice).json()["usage"]
    for text, row in zip(TEXTS, asked.json()["predictions"], strict=True):
        best = translator.translate([text])[0][0] if text else None
        assert row["outputs"] == [best.text if best else ""]
        assert row["scores"] == [pytest.approx(best.score if best else 0.0, rel=1e-4)]
    expected = [one.text for one in translator.translate(["a b c"], 2)[0]]
    assert [one["text"] for one in plain["translations"][0]["outputs"]] == expected
    assert plain["translations"][0]["outputs"][0]["log_prob"] is None
    assert plain["translations"][0]["cut"] is False
    assert many.status_code == fixed.status_code == 400
    assert {"2;", "--n_best=3"} <= set(many.json()["error"].split())
    assert fixed.json()["error"].startswith("alpha: model 'letters' ")
    assert [json.loads(event[6:])["choices"][0]["text"] for event in events[:2]] == [expected[0], ""]
    assert events[2:] == ["data: [DONE]", ""]
    assert limited["error"]["message"].startswith("decode_method, sampling_temperature, max_tokens: model ")
    assert told == [{"name": "letters", "step": 40, "n_best": 1, "streams": False, "most_hypotheses": 2}]


@pytest.fixture
def made(tmp_path):
    """Returns a function that writes the report of an export into a folder; returns the folder."""

    def make(**report):
        folder = tmp_path / "letters/7"
        folder.mkdir(parents=True)
        (folder / "t2t_export.json").write_text(json.dumps(report))
        return folder

    return make


def test_the_name_of_a_version_is_that_of_its_model(made):
    folder = made()
    assert is_export(folder)
    assert named_runs([str(folder), f"a={folder}"]) == {"letters": str(folder), "a": str(folder)}


@pytest.mark.parametrize(
    ("report", "about"),
    [
        ({"format": "onnx", "n_best": 1}, ["onnx;"]),
        ({}, ["t2t_export.json", "KeyError"]),
        ({"format": "saved_model", "n_best": 1, "run": {"step": 1}}, ["FileNotFoundError"]),
    ],
)
def test_other_and_damaged_exports_are_refused(made, report, about):
    with refused(*about):
        ServedExport("a", made(**report))


class Repeats(tf.Module):
    """A graph that answers each text with itself."""

    @tf.function
    def serve(self, text):
        return {"outputs": text, "scores": tf.zeros(tf.shape(text)[:1])}


class Cuts(tf.Module):
    """A graph that cuts texts and outputs to two bytes, and reports it."""

    @tf.function
    def serve(self, text):
        is_cut = tf.strings.length(text) > 2
        outputs = {
            "outputs": tf.strings.substr(text, 0, 2)[:, None],
            "scores": tf.zeros_like(is_cut, tf.float32)[:, None],
        }
        ones = tf.ones_like(is_cut, tf.int32)
        outputs |= {"input_lengths": tf.minimum(tf.strings.length(text), 2), "output_lengths": ones[:, None]}
        return outputs | {"cut_inputs": is_cut, "cut_outputs": is_cut[:, None]}


@pytest.fixture
def served(made):
    """Returns a function that saves and loads an export of inputs of a type."""

    def load(dtype=tf.string, graph=None):
        folder, graph = made(format="saved_model", n_best=2, run={"step": 40}), graph or Repeats()
        serve = graph.serve.get_concrete_function(tf.TensorSpec([None], dtype, name="text"))
        tf.saved_model.save(graph, str(folder), signatures={"serving_default": serve})
        return ServedExport("letters", folder)

    return load


@pytest.mark.parametrize(
    ("asked", "about"),
    [
        ({"n_best": 3}, ["n_best=3:", "letters/7", "2;", "--n_best=3"]),
        ({"changes": {"alpha": 1.0}, "most_tokens": 9}, ["alpha,", "max_tokens:", "'letters'"]),
        ({"terms": OutputTerms(avoid=("a",))}, ["constraints:", "'letters'"]),
    ],
)
def test_requests_keep_to_what_was_exported(served, asked, about):
    export = served()
    assert [question.n_best for question in export.questions(Query(texts=["a", "b"], n_best=2))] == [2, 2]
    with refused(*about):
        export.questions(Query(texts=["a"], **asked))


def test_a_text_that_the_graph_cuts_is_refused_unless_it_may_be_truncated(served):
    asked = {"json": {"prompt": ["ab", "abc"]}}
    with serving(served(graph=Cuts())) as (client, _):
        refusal = client.post("/v1/completions", **asked)
        found = client.post("/v1/completions", json={**asked["json"], "truncate": True}).json()
    choices = found["choices"]
    assert found["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert [one["text"] for one in choices] == ["ab", "ab"]
    assert [(one.get("cut"), one["finish_reason"]) for one in choices] == [(None, "stop"), (True, "length")]


def test_only_text_is_served(served):
    with refused("'letters':"):
        served(tf.float32)


@pytest.mark.parametrize(
    ("command", "flags", "about"),
    [
        (server, ["--checkpoint=best"], "--checkpoint: {folder}"),
        (server, ["--decode_beam_size=8"], "beam_size=8: {folder}"),
        (insight, [], "--output_dir={folder}:"),
        *(
            (server, [f"--{flag}"], f"--{flag.partition('=')[0]}:")
            for flag in ("engine=auto", "compute_type=int8", "worker_gpu=1", "worker_cpu=2", "weight_shards=2",
                         "ensemble_average=log_probabilities")
        ),
    ],
)  # fmt: skip
def test_what_an_export_cannot_do_is_said(made, command, flags, about):
    folder = made()
    check_refused(command, "--port=0", f"--output_dir=a={folder}", *flags, about=about.format(folder=folder))
