"""Search settings of requests: those of the translator, grouped, and within the limits of the server."""

import json

import pytest
from starlette.testclient import TestClient

from t2t.errors import UserError
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.serving.app import build_app
from t2t.serving.models import BatchLimits, ServedModel
from t2t.serving.service import Service
from tests.letters import TEXTS, letters, moods, translator_of


@pytest.fixture(scope="module")
def translator():
    return translator_of(letters())


@pytest.fixture(scope="module")
def model(translator):
    return ServedModel("letters", translator, 1, limits=BatchLimits(beam=5))


@pytest.fixture(scope="module")
def client(model):
    with TestClient(build_app(Service([model]), ["127.0.0.1"]), base_url="http://127.0.0.1") as client:
        yield client


def texts_of(answer):
    return [[output["text"] for output in row["outputs"]] for row in answer.json()["translations"]]


def written(answers):
    return [tuple(one.ids for one in answer.hypotheses) for answer in answers]


@pytest.mark.parametrize(
    "changes",
    [
        {"beam_size": 5, "n_best": 5},
        {"beam_size": 1},
        {"decode_method": "greedy"},
        {"alpha": 3.0},
        {"extra_length": 1},
        {"decode_method": "sample", "seed": 7, "n_best": 3},
        {"decode_method": "sample", "seed": 8, "sampling_temperature": 0.5, "sampling_top_k": 3, "sampling_top_p": 0.9},
    ],
    ids=str,
)
def test_a_request_is_searched_as_it_says(client, translator, changes):
    answer = client.post("/translate", json={"text": TEXTS, **changes})
    assert answer.status_code == 200, answer.text
    assert texts_of(answer) == [[one.text for one in row] for row in translator.translate(TEXTS, **changes)]


def test_null_is_what_is_left_out(client):
    plain = client.post("/translate", json={"text": TEXTS}).json()
    assert client.post("/translate", json={"text": TEXTS, "alpha": None, "n_best": None}).json() == plain


def test_equal_settings_are_searched_together(model, translator, monkeypatch):
    batches, translate = [], translator.translate_ids
    monkeypatch.setattr(
        translator, "translate_ids",
        lambda ids, n_best, **more: (batches.append((len(ids), more.get("alpha"))), translate(ids, n_best, **more))[1],
    )  # fmt: skip
    asked = [model.questions([text], 1, changes) for text in "abc" for changes in ({}, {"alpha": 1.0}, {"alpha": 2.0})]
    found = model.answer([question for one in asked for question in one])
    assert sorted(batches, key=str) == [(3, 1.0), (3, 2.0), (3, None)]
    assert written(found) == written([model.answer(one)[0] for one in asked])


def test_samples_without_a_seed_are_other_ones_each_time_and_do_not_depend_on_their_neighbours(model):
    changes = {"decode_method": "sample", "sampling_temperature": 3.0}
    questions = [model.questions(["a b c d"], 1, changes)[0] for _ in range(6)]
    together = model.answer(questions)
    assert len(set(written(together))) > 1
    assert written(together) == written([model.answer([question])[0] for question in questions])


MISTAKES = [
    (
        {"beam_size": 6},
        "beam_size=6: the server searches at most 5 for a text; ask for that, or start it with a larger",
    ),
    ({"decode_method": "sample", "n_best": 6}, "n_best=6: the server searches at most 5 for a text"),
    ({"beam_size": 2, "n_best": 3}, "n_best=3: beam search of width 2 has from 1 to 2 hypotheses"),
    ({"extra_length": 6}, "extra_length=6: the server allows at most 5; ask for that, or start it with a larger"),
    ({"beam_size": 0}, "hparam beam_size=0: it is at least 1"),
    ({"beam_size": "4"}, "hparam beam_size='4': it is of type int"),
    ({"beam_size": [4]}, "hparam beam_size=[4]: it is of type int"),
    ({"alpha": -1}, "hparam alpha=-1.0: it is at least 0.0"),
    ({"alpha": 10**400}, "hparam alpha=inf: it is a finite number"),
    ({"alpha": float("nan")}, "hparam alpha=nan: it is a finite number"),
    ({"decode_method": "best"}, "hparam decode_method='best': use one of beam, greedy, sample"),
    (
        {"decode_method": "sample", "sampling_temperature": 1e39},
        "hparam sampling_temperature=1e+39: it is at most 1000000.0; Temperature: divides the logits.",
    ),
    ({"seed": 1}, "seed=1: nothing reads it while decode_method=beam; it is read with decode_method=sample"),
    ({"sampling_top_k": 2}, "sampling_top_k=2: nothing reads it while decode_method=beam; it is read with decode_m"),
    ({"decode_method": "greedy", "alpha": 1.0}, "alpha=1.0: nothing reads it while decode_method=greedy"),
    ({"decode_method": "sample", "seed": 1.5}, "seed=1.5: it is of type float; give a whole number"),
    ({"decode_method": "sample", "sampling_top_p": 0}, "top_p 0.0: it must be above 0"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=str)
def test_a_wrong_setting_is_named_in_one_line(client, changes, message):
    answer = client.post("/translate", content=json.dumps({"text": "a", **changes}))
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    "changes", [{"alpha": 1e300}, {"decode_method": "sample", "sampling_temperature": 1e6, "seed": 10**400}], ids=str
)
def test_extreme_numbers_are_answered(client, changes):
    assert client.post("/translate", json={"text": TEXTS, **changes}).status_code == 200


def test_a_run_with_a_larger_beam_may_be_asked_for_it():
    model = ServedModel("wide", translator_of(letters(), decoding={"beam_size": 4}), 1, limits=BatchLimits(beam=1))
    assert len(model.answer(model.questions(["a"], 4, {"beam_size": 4}))[0].hypotheses) == 4
    with pytest.raises(UserError, match="beam_size=5: the server searches at most 4"):
        model.questions(["a"], 1, {"beam_size": 5})


def test_a_model_that_answers_at_once_searches_nothing():
    model = ServedModel("moods", translator_of(moods(), TransformerEncoder), 1)
    assert len(model.answer(model.questions(["a"], 3))[0].hypotheses) == 3
    with pytest.raises(UserError, match="beam_size: the model answers at once and searches nothing; leave it out"):
        model.questions(["a"], 1, {"beam_size": 2})
