"""OpenAI's routes: requests of existing clients get the expected answers, or errors in OpenAI's format."""

import json

import jsonschema
import pytest

from t2t.problems.text_files import Text2TextFiles
from t2t.serving.models import ServedModel
from t2t.specs.constants import EOS_ID
from tests.unit.problems.test_problems_languages import encoder_of
from tests.unit.serving.conftest import serving, various

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


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


def test_the_last_message_of_the_user_is_answered(client, translator):
    messages = [{"role": "system", "content": "Translate."}, *message("h"), {"role": "assistant", "content": "g"}]
    parts = [{"type": "text", "text": "a b"}, {"type": "text", "text": " c"}]
    for content in ("a b c", parts):
        answer = client.post(CHAT, json={"model": "letters", "messages": [*messages, *message(content)]}).json()
        assert answer["object"] == "chat.completion"
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": best(translator, "a b c")}


def test_outputs_hold_what_a_request_asks_for(client, translator):
    terms = {"constraints": ["h g"], "avoid": ["a"]}
    expected = best(translator, "a b c", constraints=[terms])
    assert expected != best(translator, "a b c")
    assert "h g" in expected
    assert "a" not in expected
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
    plain = client.post("/translate", json={"text": ["a b c", "d"], **asked}).json()["translations"]
    both = [best(translator, text, constraints=[terms]) for text in ("a b c", "d")]
    assert [one["outputs"][0]["text"] for one in plain] == both
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
    problem.with_encoders({"inputs": encoder, "targets": encoder})
    translator = various(problem)
    free = len(encoder.encode("one two")) + 2  # a code and end of sequence
    with serving(ServedModel("codes", translator, 1)) as (client, _):
        answer = client.post(COMPLETIONS, json={"prompt": "one two", "max_tokens": free - 1})
        assert f" {free} " in answer.json()["error"]["message"]
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


def test_models_are_listed_as_both_interfaces_expect(client):
    listed = client.get("/v1/models").json()
    assert (listed["object"], [one["id"] for one in listed["data"]]) == (
        "list",
        ["letters", "pairs", "other", "alone", "bytes"],
    )
    one = client.get("/v1/models/alone").json()
    assert (one["id"], one["object"], one["model_version_status"][0]["version"]) == ("alone", "model", "3")
    assert json.dumps(one) != json.dumps(client.get("/v1/models/letters").json())
