"""OpenAI's routes: requests of existing clients get the expected answers, or errors in OpenAI's format."""

import json

import jsonschema
import pytest
from starlette.testclient import TestClient

from t2t.problems.text_files import Text2TextFiles
from t2t.serving.app import build_app
from t2t.serving.models import ServedModel
from t2t.serving.service import RequestLimits, Service
from t2t.specs.constants import EOS_ID
from tests.letters import TEXTS, letters, letters_alone, translator_of
from tests.unit.problems.test_problems_languages import encoder_of

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def translator():
    return translator_of(letters())


@pytest.fixture(scope="module")
def continuer():
    return translator_of(letters_alone())


@pytest.fixture(scope="module")
def client(translator, continuer):
    models = [ServedModel("letters", translator, 40), ServedModel("alone", continuer, 3)]
    app = build_app(Service(models, RequestLimits(most_texts=6)), ["127.0.0.1"])
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def message(*contents):
    return [{"role": "user", "content": content} for content in contents]


def best(translator, text, **changes):
    return translator.translate([text], **changes)[0][0].text


def test_a_prompt_is_searched_as_the_run_does(client, translator):
    answer = client.post(COMPLETIONS, json={"model": "letters", "prompt": "a b c"}).json()
    (hypothesis,) = translator.translate(["a b c"])[0]
    (choice,) = answer["choices"]
    assert (answer["object"], answer["model"], choice["text"]) == ("text_completion", "letters", hypothesis.text)
    assert choice["finish_reason"] == ("stop" if hypothesis.ids[-1] == EOS_ID else "length")
    length = len(hypothesis.ids)
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": length, "total_tokens": 3 + length}


def test_several_prompts_and_choices(client, translator):
    choices = client.post(COMPLETIONS, json={"prompt": TEXTS, "n": 2}).json()["choices"]
    expected = [one.text for row in translator.translate(TEXTS, 2) for one in row]
    assert [one["text"] for one in choices] == expected
    assert [one["index"] for one in choices] == list(range(2 * len(TEXTS)))


def test_the_last_message_of_the_user_is_answered(client, translator):
    messages = [{"role": "system", "content": "Translate."}, *message("h"), {"role": "assistant", "content": "g"}]
    parts = [{"type": "text", "text": "a b"}, {"type": "text", "text": " c"}]
    for content in ("a b c", parts):
        answer = client.post(CHAT, json={"model": "letters", "messages": [*messages, *message(content)]}).json()
        assert answer["object"] == "chat.completion"
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": best(translator, "a b c")}


@pytest.mark.parametrize(
    ("asked", "changes"),
    [
        ({"temperature": 0}, {"decode_method": "greedy"}),
        ({"temperature": 0, "top_p": 0.5, "seed": 3}, {"decode_method": "greedy"}),
        ({"temperature": 0.5, "seed": 3}, {"decode_method": "sample", "sampling_temperature": 0.5, "seed": 3}),
        ({"top_p": 0.6, "seed": 4}, {"decode_method": "sample", "sampling_top_p": 0.6, "seed": 4}),
        ({"temperature": 1, "top_p": 1, "seed": 5}, {"decode_method": "sample", "seed": 5}),
        ({"top_p": 1, "seed": 3}, {}),
        ({"beam_size": 1}, {"beam_size": 1}),
    ],
    ids=str,
)
def test_temperature_and_top_p_sample_where_they_say_so(client, translator, asked, changes):
    found = client.post(COMPLETIONS, json={"prompt": TEXTS, **asked}).json()["choices"]
    assert [one["text"] for one in found] == [row[0].text for row in translator.translate(TEXTS, **changes)]


def test_outputs_hold_what_a_request_asks_for(client, translator):
    terms = {"constraints": ["h g"], "avoid": ["a"]}
    expected = best(translator, "a b c", constraints=[terms])
    assert expected != best(translator, "a b c")
    asked = {**terms, "choices": None}
    schema = client.get("/openapi.json").json()["paths"][COMPLETIONS]["post"]["requestBody"]["content"]
    jsonschema.validate({"prompt": "a b c", **asked}, schema["application/json"]["schema"])
    (choice,) = client.post(COMPLETIONS, json={"prompt": "a b c", **asked}).json()["choices"]
    assert choice["text"] == expected
    (choice,) = client.post(CHAT, json={"messages": message("a b c"), **asked}).json()["choices"]
    assert choice["message"]["content"] == expected
    streamed = client.post(COMPLETIONS, json={"prompt": "a b c", "stream": True, **asked})
    *events, end = [event.removeprefix("data: ") for event in streamed.text.split("\n\n") if event]
    assert ("".join(json.loads(event)["choices"][0]["text"] for event in events), end) == (expected, "[DONE]")
    limited = client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 2, "constraints": ["h g f e"]}).json()
    assert "h g f e" in limited["choices"][0]["text"]


def test_a_language_model_gives_what_it_adds_to_the_prompt(client, continuer):
    for prompt in ("a b", "", "never  seen"):
        whole = best(continuer, prompt)
        read = continuer.problem.decode_target(continuer.encode([prompt])[0])
        assert whole.startswith(read)
        answer = client.post(COMPLETIONS, json={"model": "alone", "prompt": prompt}).json()
        assert read + answer["choices"][0]["text"] == whole
        assert answer["usage"]["completion_tokens"] == len(continuer.translate([prompt])[0][0].ids) - len(read.split())


@pytest.mark.parametrize("search", [{}, {"temperature": 0}])
def test_max_tokens_is_kept_to(client, translator, search):
    """The input has three letters and end of sequence, and outputs may have five more ids: 4 to 9."""
    for most in (4, 6, 9, 100):
        found = client.post(COMPLETIONS, json={"prompt": "a b c", "max_tokens": most, **search}).json()
        changes = {"decode_method": "greedy"} if search else {}
        assert found["choices"][0]["text"] == best(translator, "a b c", extra_length=min(most - 4, 5), **changes)
        assert found["usage"]["completion_tokens"] <= most


@pytest.mark.parametrize("source", ["begin", "end"])
def test_max_tokens_is_kept_to_wherever_the_input_has_its_language_code(source):
    encoder = encoder_of(source=source)
    problem = Text2TextFiles(source_language="eng_Latn", target_language="deu_Latn")
    translator = translator_of(problem.with_encoders({"inputs": encoder, "targets": encoder}))
    app = build_app(Service([ServedModel("codes", translator, 1)]), ["127.0.0.1"])
    free = len(encoder.encode("one two")) + 2  # a code and end of sequence
    with TestClient(app, base_url="http://127.0.0.1") as client:
        refused = client.post(COMPLETIONS, json={"prompt": "one two", "max_tokens": free - 1})
        assert f"as long as its input, here {free} tokens" in refused.json()["error"]["message"]
        for most in (free, free + 2):
            found = client.post(COMPLETIONS, json={"prompt": "one two", "max_tokens": most}).json()
            assert found["usage"]["completion_tokens"] <= most


def test_max_tokens_of_a_language_model_are_those_it_adds(client, continuer):
    found = client.post(CHAT, json={"model": "alone", "messages": message("a b"), "max_completion_tokens": 1}).json()
    assert found["usage"]["completion_tokens"] == 1
    assert f"a b{found['choices'][0]['message']['content']}" == best(continuer, "a b", extra_length=1)


def test_what_clients_send_by_default_is_taken(client, translator):
    defaults = {
        "frequency_penalty": 0, "presence_penalty": 0.0, "logprobs": None, "stop": None, "user": "me", "echo": False,
        "logit_bias": {}, "best_of": 1, "suffix": None, "stream": False, "stream_options": None, "n": 1,
    }  # fmt: skip
    schema = client.get("/openapi.json").json()["paths"][COMPLETIONS]["post"]["requestBody"]["content"]
    jsonschema.validate({"prompt": "a", **defaults}, schema["application/json"]["schema"])
    answer = client.post(COMPLETIONS, json={"model": "letters", "prompt": "a", **defaults})
    assert answer.json()["choices"][0]["text"] == best(translator, "a")


MISTAKES = [
    (COMPLETIONS, {}, 400, "prompt: a list of one or more texts is wanted"),
    (COMPLETIONS, {"prompt": [1, 2]}, 400, "prompt: a list of one or more texts is wanted"),
    (COMPLETIONS, {"prompt": "a", "model": "letter"}, 404, "model 'letter' is not served; did you mean letters"),
    (COMPLETIONS, {"prompt": "a", "stop": ["."]}, 400, "stop=['.']: this is not supported; leave it out"),
    (COMPLETIONS, {"prompt": "a", "logprobs": 3}, 400, "logprobs=3: this is not supported"),
    (COMPLETIONS, {"prompt": "a", "avoid": "b"}, 400, "avoid 'b': a list of texts is wanted"),
    (COMPLETIONS, {"prompt": "a", "regex": "b"}, 400, "'regex' is no part of a request"),
    (COMPLETIONS, {"prompt": "a", "model": "alone", "avoid": ["b"]}, 400, "constraints: letters_alone with this model"),
    (COMPLETIONS, {"prompt": "a", "colour": 3}, 400, "'colour' is no part of a request; there are prompt, model, n"),
    (COMPLETIONS, {"prompt": "a b c", "max_tokens": 3}, 400, "max_tokens=3: an output may be as long as its input"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": 0}, 400, "max_tokens 0: a whole number from 1 is wanted"),
    (COMPLETIONS, {"prompt": "a", "n": 9}, 400, "n_best=9: beam search of width 3 has from 1 to 3"),
    (COMPLETIONS, {"prompt": "a", "n": 9, "temperature": 1}, 400, "n_best=9: the server searches at most 8 for a text"),
    (COMPLETIONS, {"prompt": "a", "temperature": "hot"}, 400, "temperature 'hot': a number from 0 is wanted"),
    (COMPLETIONS, {"prompt": "a", "top_p": 2}, 400, "hparam sampling_top_p=2.0: it is at most 1.0"),
    (COMPLETIONS, {"prompt": "a", "seed": "x", "temperature": 1}, 400, "seed='x': it is of type str"),
    *((COMPLETIONS, {"prompt": "a", "seed": seed}, 400, f"seed={seed!r}: it is of type {kind}; give a whole number")
      for seed, kind in (("x", "str"), (1.5, "float"), (True, "bool"), ([], "list"))),
    (COMPLETIONS, {"prompt": ["a"] * 7}, 413, "7 texts, at most 6; send fewer at once"),
    (COMPLETIONS, {"prompt": ["a", "b"], "stream": True}, 400, "stream: 2 texts are asked for, and one is written"),
    (COMPLETIONS, {"prompt": "a", "stream": "yes"}, 400, "stream 'yes': true or false is wanted"),
    *((COMPLETIONS, {"prompt": "a", "stream_options": options}, 400, f"stream_options {options!r}: an object is wanted")
      for options in (3, 0, False, "", [])),
    (CHAT, {}, 400, "messages: a list of objects with role and content is wanted; send that"),
    (CHAT, {"messages": [{"role": "system", "content": "a"}]}, 400, "messages: none has the role user; send one"),
    (CHAT, {"messages": message([{"type": "image_url"}])}, 400, "messages: a content of several parts has parts"),
    (CHAT, {"messages": message(None)}, 400, "messages: a list of one or more texts is wanted"),
    (CHAT, {"messages": message("a"), "prompt": "a"}, 400, "'prompt' is no part of a request; there are messages"),
    (CHAT, {"messages": message("a"), "tools": [{}]}, 400, "tools=[{}]: this is not supported; leave it out"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "asked", "status", "said"), MISTAKES, ids=lambda one: str(one)[:40])
def test_mistakes_are_answered_in_the_form_of_openai(client, path, asked, status, said):
    answer = client.post(path, json=asked)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (status, "invalid_request_error")
    assert said in error["message"]
    assert "\n" not in error["message"]


def test_other_refusals_have_that_form_too(client):
    for answer, status in (
        (client.get(COMPLETIONS), 405),
        (client.post(CHAT, headers={"origin": "https://evil.example"}), 403),
        (client.post(CHAT, headers={"host": "evil.example"}), 400),
        (client.post(COMPLETIONS, content="x" * (1 << 21)), 413),
    ):
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")


def test_models_are_listed_as_both_interfaces_expect(client):
    listed = client.get("/v1/models").json()
    assert (listed["object"], [one["id"] for one in listed["data"]]) == ("list", ["letters", "alone"])
    one = client.get("/v1/models/alone").json()
    assert (one["id"], one["object"], one["model_version_status"][0]["version"]) == ("alone", "model", "3")
    assert json.dumps(one) != json.dumps(client.get("/v1/models/letters").json())
