"""Search settings of requests: those of the translator, grouped, and within the limits of the server."""

import json

import pytest

from t2t.models.transformer_encoder import TransformerEncoder
from t2t.serving.models import BatchLimits, ServedModel
from t2t.serving.requests import Query
from tests.errors import refused
from tests.letters import TEXTS, letters, moods, translator_of
from tests.waiting import LIMIT_S


@pytest.fixture(scope="module")
def model(translator):
    return ServedModel("letters", translator, 1)


def written(answers):
    return [tuple(one.ids for one in answer.hypotheses) for answer in answers]


SAMPLE, GREEDY = {"decode_method": "sample"}, {"decode_method": "greedy"}
WARM = {**SAMPLE, "seed": 8, "sampling_temperature": 0.5, "sampling_top_k": 3, "sampling_top_p": 0.9, "n_best": 3}
PLAIN, COMPLETIONS = "/translate", "/v1/completions"
SEARCHES = [
    *((PLAIN, changes, changes) for changes in (
        {"beam_size": 5, "n_best": 2, "alpha": 1.5}, {"beam_size": 1}, GREEDY, {"alpha": 3.0}, {"extra_length": 1},
        WARM,
    )),
    (COMPLETIONS, {"n": 2}, {"n_best": 2}),
    (COMPLETIONS, {"temperature": 0}, GREEDY),
    (COMPLETIONS, {"temperature": 0, "top_p": 0.5, "seed": 3}, GREEDY),
    (COMPLETIONS, {"temperature": 0.5, "top_p": 0.6, "seed": 4},
     {**SAMPLE, "sampling_temperature": 0.5, "sampling_top_p": 0.6, "seed": 4}),
    (COMPLETIONS, {"temperature": 1, "top_p": 1, "seed": 5}, {**SAMPLE, "seed": 5}),
    (COMPLETIONS, {"top_p": 1, "seed": 3}, {}),
    (COMPLETIONS, {"beam_size": 1}, {"beam_size": 1}),
]  # fmt: skip
"""Routes, what requests say, and the changes of the translator's settings; temperature and top_p of OpenAI sample."""


@pytest.mark.parametrize(("path", "asked", "changes"), SEARCHES, ids=str)
def test_a_request_is_searched_as_it_says(client, translator, path, asked, changes):
    answer = client.post(path, json={"text" if path == PLAIN else "prompt": TEXTS, **asked})
    assert answer.status_code == 200, answer.text
    expected = [one.text for row in translator.translate(TEXTS, **changes) for one in row]
    if path == PLAIN:
        assert [one["text"] for row in answer.json()["translations"] for one in row["outputs"]] == expected
    else:
        choices = answer.json()["choices"]
        assert [one["text"] for one in choices] == expected
        assert [one["index"] for one in choices] == list(range(len(expected)))


class Watched:
    """A translator whose searches are noted: their numbers of texts, and alpha."""

    def __init__(self, translator):
        self._translator, self.batches = translator, []

    def __getattr__(self, name):
        return getattr(self._translator, name)

    def translate_ids(self, ids, n_best, **more):
        self.batches.append((len(ids), more.get("alpha")))
        return self._translator.translate_ids(ids, n_best, **more)


def test_equal_settings_are_searched_together(translator):
    watched = Watched(translator)
    model = ServedModel("letters", watched, 1)
    asked = [
        model.questions(Query(texts=[text], n_best=1, changes=changes))
        for text in "abc"
        for changes in ({}, {"alpha": 3.0})
    ]
    futures = model.queue.submit([question for one in asked for question in one])
    found = [future.result(LIMIT_S) for future in futures]
    assert sorted(watched.batches, key=str) == [(3, 3.0), (3, None)]
    assert written(found) == written([model.answer(one)[0] for one in asked])


def test_samples_that_differ_in_their_numbers_are_searched_together_and_are_those_of_each_alone(translator):
    watched = Watched(translator)
    model = ServedModel("letters", watched, 1)
    sampled = {"decode_method": "sample", "seed": 3}
    changes = [
        *({"sampling_temperature": 0.5 + n, "seed": 2**40 + n} for n in range(4)),
        *({"sampling_top_k": 2 + n, "sampling_top_p": 0.9 - n / 10} for n in range(2)),
    ]
    asked = [model.questions(Query(texts=["a b c d"], n_best=2, changes=sampled | one))[0] for one in changes]
    found = [future.result(LIMIT_S) for future in model.queue.submit(asked)]
    assert [count for count, _ in watched.batches] == [4, 2]
    alone = [translator.translate(["a b c d"], 2, **(sampled | one))[0] for one in changes]
    assert written(found) == [tuple(one.ids for one in outputs) for outputs in alone]
    assert len(set(map(str, written(found)))) > 2


def test_samples_without_a_seed_are_other_ones_each_time_and_do_not_depend_on_their_neighbours(model):
    changes = {"decode_method": "sample", "sampling_temperature": 3.0}
    questions = [model.questions(Query(texts=["a b c d"], n_best=1, changes=changes))[0] for _ in range(6)]
    together = model.answer(questions)
    assert len(set(written(together))) > 1
    assert written(together) == written([model.answer([question])[0] for question in questions])


@pytest.mark.parametrize(
    "changes", [{"alpha": 10}, {"decode_method": "sample", "sampling_temperature": 1e6, "seed": 10**400}], ids=str
)
def test_extreme_numbers_are_answered(client, changes):
    assert client.post("/translate", content=json.dumps({"text": TEXTS, **changes})).status_code == 200


def test_a_run_with_a_larger_beam_may_be_asked_for_it_and_one_that_answers_at_once_searches_nothing():
    wide = ServedModel("wide", translator_of(letters(), decoding={"beam_size": 4}), 1, limits=BatchLimits(beam=1))
    assert wide.questions(Query(texts=["a"], n_best=4, changes={"beam_size": 4}))
    model = ServedModel("moods", translator_of(moods(), TransformerEncoder), 1)
    assert len(model.answer(model.questions(Query(texts=["a"], n_best=3)))[0].hypotheses) == 3
    for one, asked, *about in (
        (wide, {"changes": {"beam_size": 5}}, "beam_size=5:", "4"),
        (model, {"changes": {"beam_size": 2}}, "beam_size:"),
        (model, {"most_tokens": 9}, "max_tokens:"),
    ):
        with refused(*about):
            one.questions(Query(texts=["a"], n_best=1, **asked))
