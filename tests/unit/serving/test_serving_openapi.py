"""The OpenAPI description matches the routes; requests that are refused have a status and an error of one line."""

import json

import pytest
from jsonschema import Draft202012Validator

import t2t
from t2t.hparams.groups import DecodeHParams
from t2t.registry.overrides import is_of_plugin
from t2t.serving.engine import ServingEngine
from t2t.serving.requests import SEARCH_KEYS
from t2t.serving.routes import build_app
from t2t.studio.routes import insight_addresses
from t2t.studio.run_folders import RunFolders
from t2t.studio.studio import LoadedModels, Studio


@pytest.fixture(scope="module")
def app(client):
    return client.app


@pytest.fixture(scope="module")
def document(client):
    return client.get("/openapi.json").json()


@pytest.fixture(scope="module")
def paths(document):
    return document["paths"]


@pytest.fixture(scope="module")
def validator(document):
    """A function that returns the validator of a schema of the document."""
    return lambda schema: Draft202012Validator({**schema, "components": document["components"]})


def operations(paths):
    return [(method, path, one) for path, methods in paths.items() for method, one in methods.items()]


def described(app):
    document = {(one.method, one.path) for one in app.state.addresses}
    routes = {(method, route.path) for route in app.routes for method in route.methods - {"HEAD"}}
    return document, routes


def test_every_route_is_described_also_those_of_the_page_whose_start_is_its_own(app, paths):
    document, routes = described(app)
    assert document == routes
    assert {(method.upper(), path) for method, path, _ in operations(paths)} == routes
    names = [one["operationId"] for *_, one in operations(paths)]
    assert len(set(names)) == len(names)
    app = build_app(ServingEngine([]), ["127.0.0.1"], insight_addresses(Studio(RunFolders({}), LoadedModels(None))))
    document, routes = described(app)
    assert document == routes
    (start,) = [one for one in app.state.addresses if one.path == "/"]
    assert start.summary == "The page Runs."


def test_every_schema_is_one_and_versions_are_numbers(document, paths, validator):
    contents = [
        content
        for *_, one in operations(paths)
        for body in (one.get("requestBody", {}), *one["responses"].values())
        for content in body.get("content", {}).values()
    ]
    assert len(contents) > 20
    for content in contents:
        if "example" in content:
            validator(content["schema"]).validate(content["example"])
    assert len(document["components"]["schemas"]) > 20
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    (_, version) = paths["/v1/models/{name}/versions/{version}:predict"]["post"]["parameters"]
    assert version == {"name": "version", "in": "path", "required": True, "schema": {"type": "integer"}}


def test_examples_are_answered_as_described(client, paths, validator):
    """Every route is called with its example; the answer has a documented type and schema.

    A new checkpoint is only read of a run in a folder, see test_serving_reload.
    """
    for method, path, one in operations(paths):
        if path.endswith(":reload"):
            continue
        address = path.format(name="letters", version="40")
        bodies = one.get("requestBody", {"content": {None: {}}})["content"]
        for kind, body in bodies.items():
            content = json.dumps(body["example"]) if kind == "application/json" else body.get("example")
            headers = {"content-type": kind} if kind else {}
            answer = client.request(method, address, content=content, headers=headers)
            assert answer.status_code == 200, (path, answer.text)
            found = answer.headers["content-type"].partition(";")[0]
            schema = one["responses"]["200"]["content"][found]["schema"]
            validator(schema).validate(answer.json() if found == "application/json" else answer.text)


def test_refused_requests_and_errors_are_as_described(client, paths, validator):
    """Requests that a schema refuses get status 400 and an error as described."""
    wrong = {
        "/translate": [{"text": []}, {"text": "a", "beam_size": 0}, {"text": "a", "no": 1}, {"text": "a", "stream": 1}],
        COMPLETIONS: [{}, {"prompt": "a", "temperature": -1}, {"prompt": "a", "top_p": 0}, {"prompt": 3}],
        CHAT: [{"messages": []}, {"messages": [3]}, {"messages": [{"role": "user"}], "n": 0}],
        "/v1/models/{name}:predict": [
            {}, {"instances": []}, {"instances": ["a"], "inputs": ["a"]}, {"instances": ["a"], "n_best": 2},
        ],
    }  # fmt: skip
    for path, bodies in wrong.items():
        operation = paths[path]["post"]
        asked = validator(operation["requestBody"]["content"]["application/json"]["schema"])
        refused = validator(operation["responses"]["default"]["content"]["application/json"]["schema"])
        for body in bodies:
            assert not asked.is_valid(body), body
            answer = client.post(path.format(name="letters"), json=body)
            assert answer.status_code == 400, (body, answer.text)
            refused.validate(answer.json())


def test_bounds_are_those_of_the_hparams(document):
    properties = document["components"]["schemas"]["TranslationRequest"]["properties"]
    assert set(SEARCH_KEYS) < set(properties)
    schema = {name: properties[name]["anyOf"][0] for name in SEARCH_KEYS}
    assert properties["model"]["anyOf"][0]["enum"] == ["letters", "pairs", "other", "alone", "bytes"]
    assert [one.get("maxItems") for one in properties["text"]["anyOf"]] == [None, 6]
    rules = {name: DecodeHParams.__dataclass_fields__[name].metadata for name in SEARCH_KEYS if name != "seed"}
    for name, rule in rules.items():
        assert (schema[name].get("minimum"), schema[name].get("maximum")) == (rule["minimum"], rule["maximum"])
    methods = {entry.name for entry in rules["decode_method"]["choices"].entries() if not is_of_plugin(entry.value)}
    assert set(schema["decode_method"]["enum"]) == methods


def test_what_is_served_is_told_to_programs_and_people(client, app):
    told = client.get("/").json()
    assert told["version"] == t2t.__version__
    assert [(one["name"], one["step"], one["problem"]) for one in told["models"]] == [
        ("letters", 40, "letters"), ("pairs", 40, "letters"), ("other", 7, "letters"), ("alone", 3, "letters_alone"),
        ("bytes", 1, "letters"),
    ]  # fmt: skip
    letters, _, other, *_ = told["models"]
    assert other["source_language"] == "<a>"
    assert "target_language" not in other
    assert letters["search"]["beam_size"] == 3
    assert told["limits"]["most_texts"] == 6
    assert [one["path"] for one in told["addresses"]] == [one.path for one in app.state.addresses]
    page = client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<a>" not in page.text.replace('<a href="/openapi.json">', "")
    assert "&lt;a&gt;" in page.text
    assert all(one.path in page.text for one in app.state.addresses)


# === Requests that are refused: the status, and an error of one line in the form of the route that names  ===
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
    (ROWS, {"instances": []}, 400, "instances=[]: 1;"),
    (ROWS, {"instances": [3]}, 400, "instances[0]=3:"), (ROWS, {"instances": [{}]}, 400, "instances:"),
    (ROWS, {"inputs": "a"}, 400, "inputs='a':"),
    (ROWS, {"instances": ["a"], "signature_name": "x"}, 400, "signature_name='x': serving_default"),
    (ROWS, {"instances": ["a"], "n_best": 2, "constraints": ["c"]}, 400,
     "n_best signature_name, instances, inputs, truncate"),
    (ROWS, {"instances": [{"b64": "?"}]}, 400, "instances: b64 base64"),
    (ROWS, {"inputs": ["a"], "text": None}, 400, "text signature_name, instances, inputs"),
    (ROWS, {"instances": ["a"] * 7}, 413, "7 6;"),
    (ROWS, {"instances": ["a" * 5000]}, 413, "4,000"),
    (ROWS, [], 400, "JSON list;"),
    (PLAIN, {"text": "a", "beam": 3}, 400, "beam text, model, n_best stream, decode_method,"),
    (PLAIN, {"text": "a", "n_best": "2"}, 400, "n_best='2': int str"),
    (PLAIN, {"text": "a", "n_best": 4}, 400, "n_best=4: 3 1"),
    (PLAIN, {"text": {}}, 400, "text={}:"),
    (PLAIN, {"text": "a", "model": "none"}, 404, "'none' letters, pairs, other, alone, bytes"),
    (PLAIN, {"text": "a", "model": ["x"]}, 400, "model=['x']: str"),
    (PLAIN, {"text": "a", "model": "x" * 999}, 404, f"'{'x' * 199}"),
    (PLAIN, {"text": "a", "n_best": "x" * 999}, 400, f"n_best='{'x' * 59}:"),
    (PLAIN, {"text": "a", "x" * 999: 1}, 400, f"{'x' * 59}"),
    (PLAIN, {"text": "a b", "constraints": ["z"]}, 400, "'z':"),
    (PLAIN, {"text": "a b", "regex": "a"}, 400, "regex"),
    (PLAIN, {"text": "a", "\ud800": 1}, 400, "body: name"),
    (PLAIN, {"text": "a b", "avoid": "a"}, 400, "avoid='a':"),
    (PLAIN, {"text": "a b", "avoid": [" "]}, 400, "avoid[0]=' ':"),
    (PLAIN, {"text": "a b", "choices": []}, 400, "choices=[]: 1;"),
    (PLAIN, {"text": "a b", "choices": ["a"], "avoid": ["b"]}, 400, "choices"),
    (PLAIN, {"text": ["a", "b"], "stream": True}, 400, "stream: 2"),
    (PLAIN, {"text": "a", "beam_size": 99, "stream": True}, 400, "beam_size=99:"),
    *((PLAIN + "?model=letter", {"text": "a", **body}, status, about) for body, status, about in (
        ({}, 404, "'letter' letters other? letters, pairs, other, alone, bytes"),
        ({"model": "other"}, 400, "'other' 'letter'"), ({"model": 3}, 400, "model=3:"),
    )),
    *((PLAIN, {"text": "a", **changes}, 400, about) for changes, about in (
        ({"beam_size": 6}, "beam_size=6: 5"),
        ({**SAMPLE, "n_best": 6}, "n_best=6: 5"),
        ({"beam_size": 2, "n_best": 3}, "n_best=3: 2 1"),
        ({"extra_length": 6}, "extra_length=6: 5;"),
        ({"beam_size": 0}, "beam_size=0: 1"),
        ({"beam_size": "4"}, "beam_size='4': int"),
        ({"beam_size": [4]}, "beam_size=[4]: int"),
        ({"alpha": -1}, "alpha=-1: 0.0;"),
        ({"alpha": 10**400}, "alpha=1000000000"), ({"alpha": 1e300}, "alpha=1e+300: 10.0;"),
        ({"alpha": float("nan")}, "alpha=nan:"),
        ({"decode_method": "best"}, "decode_method='best': beam, greedy, mask_predict, sample;"),
        ({**SAMPLE, "sampling_temperature": 1e39}, "sampling_temperature=1e+39: 1000000.0;"),
        ({"seed": 1}, "seed=1: decode_method=beam; decode_method=sample"),
        ({"sampling_top_k": 2}, "sampling_top_k=2: decode_method=beam; decode_method=sample"),
        ({"decode_method": "greedy", "alpha": 1.0}, "alpha=1.0: decode_method=greedy"),
        ({**SAMPLE, "seed": 1.5}, "seed=1.5: float;"),
        ({**SAMPLE, "sampling_top_p": 0}, "top_p 0.0:"),
    )),
    (COMPLETIONS, {}, 400, "prompt:"),
    (COMPLETIONS, {"prompt": [1, 2]}, 400, "prompt[0]=1:"),
    *((COMPLETIONS, {"prompt": "a", **more}, status, about) for more, status, about in (
        ({"model": "letter"}, 404, "'letter' letters"),
        ({"stop": [3]}, 400, "stop[0]=3:"), ({"stop": [""]}, 400, "stop[0]='':"),
        ({"stop": list("abcde")}, 400, "stop=['a', 4;"),
        ({"logprobs": 3}, 400, "logprobs=3:"), ({"logprobs": True}, 400, "logprobs=True:"),
        ({"logprobs": 0, "stream": True}, 400, "logprobs: stream"),
        ({"avoid": "b"}, 400, "avoid='b':"),
        ({"regex": "b"}, 400, "regex"),
        ({"model": "alone", "avoid": ["b"]}, 400, "constraints: letters_alone"),
        ({"colour": 3}, 400, "colour prompt, model, n"),
        ({"max_tokens": 0}, 400, "max_tokens=0: 1;"),
        ({"n": 9}, 400, "n=9: 5"), ({"beam_size": 9, "n": 2}, 400, "beam_size=9: 5"),
        ({"n": 9, "temperature": 1}, 400, "n=9: 5"),
        ({"temperature": "hot"}, 400, "temperature='hot':"),
        ({"top_p": 2}, 400, "top_p=2: 1.0;"), ({"top_p": 0}, 400, "top_p=0: 0.0;"),
        ({"seed": "x", "temperature": 1}, 400, "seed='x': str"),
        ({"seed": "x"}, 400, "seed='x': int str;"),
        ({"seed": 1.5}, 400, "seed=1.5: float;"),
        ({"seed": True}, 400, "seed=True: bool;"),
        ({"seed": []}, 400, "seed=[]: array;"),
        ({"stream": "yes"}, 400, "stream='yes':"),
        *(({"stream_options": options}, 400, f"stream_options={options!r}:") for options in (3, 0, False, "", [])),
    )),
    (COMPLETIONS, {"prompt": "a b c", "max_tokens": 3}, 400, "max_tokens=3:"),
    (COMPLETIONS, {"prompt": ["a"] * 7}, 413, "7 6;"),
    (COMPLETIONS, {"prompt": ["a", "b"], "stream": True}, 400, "stream: 2"),
    (CHAT, {}, 400, "messages:"),
    (CHAT, {"messages": [{"role": "system", "content": "a"}]}, 400, "messages: user"),
    (CHAT, {"messages": message([{"type": "image_url"}])}, 400, "messages: parts"),
    (CHAT, {"messages": message(None)}, 400, "messages:"),
    (CHAT, {"messages": message("a"), "prompt": "a"}, 400, "prompt messages"),
    (CHAT, {"messages": message("a"), "tools": [{}]}, 400, "tools=[{}]:"),
]  # fmt: skip
"""Route, body, status, and what the error names."""


@pytest.mark.parametrize(("path", "body", "status", "about"), MISTAKES, ids=lambda one: str(one)[:40])
def test_mistakes_are_answered_in_one_line(client, path, body, status, about):
    answer = client.post(path, content=json.dumps(body))
    (error,) = answer.json().values()
    if path in (COMPLETIONS, CHAT):
        assert error["type"] == "invalid_request_error"
        is_named = about.partition(" ")[0].strip("':").partition("=")[0].partition("'")[0] in body
        assert not is_named or error["param"] in body
        assert status != 404 or (error["param"], error["code"]) == ("model", "model_not_found")
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
        ("POST", "/v1/embeddings", {}, 404),
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
    assert isinstance(error, dict if path in (COMPLETIONS, CHAT, "/v1/embeddings") else str)
