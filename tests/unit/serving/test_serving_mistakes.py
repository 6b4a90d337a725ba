"""Requests that are refused: the status, and an error of one line in the form of the route that names what is wrong."""

import json

import pytest

ROWS, PLAIN = "/v1/models/letters:predict", "/translate"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
SAMPLE = {"decode_method": "sample"}


def message(*contents):
    return [{"role": "user", "content": content} for content in contents]


MISTAKES = [
    ("/v1/models/letter:predict", {"instances": ["a"]}, 404, "'letter' letters"),
    ("/v1/models/letters/versions/41:predict", {"instances": ["a"]}, 404, "41 'letters'"),
    (ROWS, {}, 400, '"instances", "inputs",'),
    (ROWS, {"instances": ["a"], "inputs": ["a"]}, 400, '"instances", "inputs",'),
    (ROWS, {"instances": []}, 400, "instances:"),
    (ROWS, {"instances": [3]}, 400, "instances:"),
    (ROWS, {"inputs": "a"}, 400, "inputs:"),
    (ROWS, {"instances": ["a"], "signature_name": "x"}, 400, "'x' serving_default;"),
    (ROWS, {"instances": ["a"], "n_best": 2, "constraints": ["c"]}, 400,
     "'constraints' signature_name, instances, inputs"),
    (ROWS, {"inputs": ["a"], "text": None}, 400, "'text' signature_name, instances, inputs"),
    (ROWS, {"instances": ["a"] * 7}, 413, "7 6;"),
    (ROWS, {"instances": ["a" * 5000]}, 413, "4,000"),
    (ROWS, [], 400, "JSON list;"),
    (PLAIN, {"text": "a", "beam": 3}, 400, "'beam' text, model, n_best, stream, decode_method,"),
    (PLAIN, {"text": "a", "n_best": "2"}, 400, "n_best '2':"),
    (PLAIN, {"text": "a", "n_best": 4}, 400, "n_best=4: 3 1"),
    (PLAIN, {"text": {}}, 400, "text:"),
    (PLAIN, {"text": "a", "model": "none"}, 404, "'none' letters, pairs, other, alone, bytes"),
    (PLAIN, {"text": "a", "model": ["x"]}, 404, "['x']"),
    (PLAIN, {"text": "a", "model": "x" * 999}, 404, f"'{'x' * 199}"),
    (PLAIN, {"text": "a", "n_best": "x" * 999}, 400, f"n_best '{'x' * 59}:"),
    (PLAIN, {"text": "a", "x" * 999: 1}, 400, f"'{'x' * 59}"),
    (PLAIN, {"text": "a b", "constraints": ["z"]}, 400, "'z':"),
    (PLAIN, {"text": "a b", "regex": "a"}, 400, "'regex'"),
    (PLAIN, {"text": "a b", "avoid": "a"}, 400, "avoid 'a':"),
    (PLAIN, {"text": ["a", "b"], "stream": True}, 400, "stream: 2"),
    (PLAIN, {"text": "a", "beam_size": 99, "stream": True}, 400, "beam_size=99:"),
    *((PLAIN + "?model=letter", {"text": "a", **body}, status, about) for body, status, about in (
        ({}, 404, "'letter' letters other? letters, pairs, other, alone, bytes"),
        ({"model": "other"}, 400, "'other' 'letter'"), ({"model": 3}, 400, "3 'letter'"),
    )),
    *((PLAIN, {"text": "a", **changes}, 400, about) for changes, about in (
        ({"beam_size": 6}, "beam_size=6: 5"),
        ({**SAMPLE, "n_best": 6}, "n_best=6: 5"),
        ({"beam_size": 2, "n_best": 3}, "n_best=3: 2 1"),
        ({"extra_length": 6}, "extra_length=6: 5;"),
        ({"beam_size": 0}, "beam_size=0: 1"),
        ({"beam_size": "4"}, "beam_size='4': int"),
        ({"beam_size": [4]}, "beam_size=[4]: int"),
        ({"alpha": -1}, "alpha=-1.0: 0.0"),
        ({"alpha": 10**400}, "alpha=inf:"),
        ({"alpha": float("nan")}, "alpha=nan:"),
        ({"decode_method": "best"}, "decode_method='best': beam, greedy, sample"),
        ({**SAMPLE, "sampling_temperature": 1e39}, "sampling_temperature=1e+39: 1000000.0;"),
        ({"seed": 1}, "seed=1: decode_method=beam; decode_method=sample"),
        ({"sampling_top_k": 2}, "sampling_top_k=2: decode_method=beam; decode_method=sample"),
        ({"decode_method": "greedy", "alpha": 1.0}, "alpha=1.0: decode_method=greedy"),
        ({**SAMPLE, "seed": 1.5}, "seed=1.5: float;"),
        ({**SAMPLE, "sampling_top_p": 0}, "top_p 0.0:"),
    )),
    (COMPLETIONS, {}, 400, "prompt:"),
    (COMPLETIONS, {"prompt": [1, 2]}, 400, "prompt:"),
    *((COMPLETIONS, {"prompt": "a", **more}, status, about) for more, status, about in (
        ({"model": "letter"}, 404, "'letter' letters"),
        ({"stop": ["."]}, 400, "stop=['.']:"),
        ({"logprobs": 3}, 400, "logprobs=3:"),
        ({"avoid": "b"}, 400, "avoid 'b':"),
        ({"regex": "b"}, 400, "'regex'"),
        ({"model": "alone", "avoid": ["b"]}, 400, "constraints: letters_alone"),
        ({"colour": 3}, 400, "'colour' prompt, model, n"),
        ({"max_tokens": 0}, 400, "max_tokens 0:"),
        ({"n": 9}, 400, "n_best=9: 3 1"),
        ({"n": 9, "temperature": 1}, 400, "n_best=9: 5"),
        ({"temperature": "hot"}, 400, "temperature 'hot':"),
        ({"top_p": 2}, 400, "sampling_top_p=2.0: 1.0"),
        ({"seed": "x", "temperature": 1}, 400, "seed='x': str"),
        ({"seed": "x"}, 400, "seed='x': str;"),
        ({"seed": 1.5}, 400, "seed=1.5: float;"),
        ({"seed": True}, 400, "seed=True: bool;"),
        ({"seed": []}, 400, "seed=[]: list;"),
        ({"stream": "yes"}, 400, "stream 'yes':"),
        *(({"stream_options": options}, 400, f"stream_options {options!r}:") for options in (3, 0, False, "", [])),
    )),
    (COMPLETIONS, {"prompt": "a b c", "max_tokens": 3}, 400, "max_tokens=3:"),
    (COMPLETIONS, {"prompt": ["a"] * 7}, 413, "7 6;"),
    (COMPLETIONS, {"prompt": ["a", "b"], "stream": True}, 400, "stream: 2"),
    (CHAT, {}, 400, "messages: role content"),
    (CHAT, {"messages": [{"role": "system", "content": "a"}]}, 400, "messages: user;"),
    (CHAT, {"messages": message([{"type": "image_url"}])}, 400, "messages: parts"),
    (CHAT, {"messages": message(None)}, 400, "messages:"),
    (CHAT, {"messages": message("a"), "prompt": "a"}, 400, "'prompt' messages"),
    (CHAT, {"messages": message("a"), "tools": [{}]}, 400, "tools=[{}]:"),
]  # fmt: skip
"""Route, body, status, and what the error names."""


@pytest.mark.parametrize(("path", "body", "status", "about"), MISTAKES, ids=lambda one: str(one)[:40])
def test_mistakes_are_answered_in_one_line(client, path, body, status, about):
    answer = client.post(path, content=json.dumps(body))
    (error,) = answer.json().values()
    if path in (COMPLETIONS, CHAT):
        assert error["type"] == "invalid_request_error"
        error = error["message"]
    assert answer.status_code == status
    assert "\n" not in error
    assert not [word for word in about.split() if word not in error], error


@pytest.mark.parametrize("version", ["41", "040", "+40", "x", "9" * 5000])
def test_a_version_is_named_by_its_step_alone(client, version):
    answer = client.get(f"/v1/models/letters/versions/{version}")
    (error,) = answer.json().values()
    assert answer.status_code == 404
    assert f"version {version[:60]} " in error
    assert "'letters'" in error
    assert error.endswith(" 40")


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("POST", PLAIN, {"content": "{"}, 400),
        ("GET", PLAIN, {}, 405),
        ("GET", "/nowhere", {}, 404),
        ("GET", "/healthz", {"headers": {"host": "evil.example"}}, 400),
        ("GET", COMPLETIONS, {}, 405),
        ("POST", CHAT, {"headers": {"origin": "https://evil.example"}}, 403),
        ("POST", CHAT, {"headers": {"host": "evil.example"}}, 400),
        ("POST", COMPLETIONS, {"content": "x" * (1 << 21)}, 413),
    ],
)
def test_other_refusals_have_the_form_of_their_route_too(client, method, path, sent, status):
    answer = client.request(method, path, **sent)
    (error,) = answer.json().values()
    assert answer.status_code == status
    assert isinstance(error, dict if path in (COMPLETIONS, CHAT) else str)
