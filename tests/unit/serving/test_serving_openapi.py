"""The OpenAPI description matches the routes, and its schemas match requests and answers."""

import json

import pytest
from jsonschema import Draft202012Validator

import t2t
from t2t.hparams.groups import DecodeHParams
from t2t.serving.app import build_app
from t2t.serving.insight.loaded_models import LoadedModels
from t2t.serving.insight.routes import insight_addresses
from t2t.serving.insight.run_folders import RunFolders
from t2t.serving.insight.studio import Studio
from t2t.serving.search_changes import SEARCH_KEYS
from t2t.serving.service import Service


@pytest.fixture(scope="module")
def app(client):
    return client.app


@pytest.fixture(scope="module")
def paths(client):
    return client.get("/openapi.json").json()["paths"]


def operations(paths):
    return [(method, path, one) for path, methods in paths.items() for method, one in methods.items()]


def described(app):
    document = {(one.method, one.path) for one in app.state.addresses}
    routes = {(method, route.path) for route in app.routes for method in route.methods - {"HEAD"}}
    return document, routes


def test_every_route_is_described(app, paths):
    document, routes = described(app)
    assert document == routes
    assert {(method.upper(), path) for method, path, _ in operations(paths)} == routes
    names = [one["operationId"] for *_, one in operations(paths)]
    assert len(set(names)) == len(names)


def test_the_addresses_of_the_page_are_described_and_its_start_is_its_own():
    app = build_app(Service([]), ["127.0.0.1"], insight_addresses(Studio(RunFolders({}), LoadedModels(None))))
    document, routes = described(app)
    assert document == routes
    (start,) = [one for one in app.state.addresses if one.path == "/"]
    assert start.summary == "The page Runs."


def test_every_schema_is_one(paths):
    contents = [
        content
        for *_, one in operations(paths)
        for body in (one.get("requestBody", {}), *one["responses"].values())
        for content in body.get("content", {}).values()
    ]
    assert len(contents) > 20
    for content in contents:
        Draft202012Validator.check_schema(content["schema"])
        if "example" in content:
            Draft202012Validator(content["schema"]).validate(content["example"])


def test_examples_are_answered_as_described(client, paths):
    """Every route is called with its example; the answer has a documented type and schema."""
    for method, path, one in operations(paths):
        address = path.format(name="letters", version="40")
        bodies = one.get("requestBody", {"content": {None: {}}})["content"]
        for kind, body in bodies.items():
            content = json.dumps(body["example"]) if kind == "application/json" else body.get("example")
            headers = {"content-type": kind} if kind else {}
            answer = client.request(method, address, content=content, headers=headers)
            assert answer.status_code == 200, (path, answer.text)
            found = answer.headers["content-type"].partition(";")[0]
            schema = one["responses"]["200"]["content"][found]["schema"]
            Draft202012Validator(schema).validate(answer.json() if found == "application/json" else answer.text)


def test_versions_are_numbers(paths):
    (_, version) = paths["/v1/models/{name}/versions/{version}:predict"]["post"]["parameters"]
    assert version == {"name": "version", "in": "path", "required": True, "schema": {"type": "integer"}}


def test_refused_requests_and_errors_are_as_described(client, paths):
    """Requests that a schema refuses get status 400 and an error as described."""
    wrong = {
        "/translate": [{"text": []}, {"text": "a", "beam_size": 0}, {"text": "a", "no": 1}, {"text": "a", "stream": 1}],
        "/v1/completions": [{}, {"prompt": "a", "temperature": -1}, {"prompt": "a", "top_p": 0}, {"prompt": 3}],
        "/v1/chat/completions": [{"messages": []}, {"messages": [3]}, {"messages": [{"role": "user"}], "n": 0}],
        "/v1/models/{name}:predict": [
            {},
            {"instances": []},
            {"instances": ["a"], "inputs": ["a"]},
            {"instances": ["a"], "n_best": 2},
        ],
    }
    for path, bodies in wrong.items():
        operation = paths[path]["post"]
        asked = Draft202012Validator(operation["requestBody"]["content"]["application/json"]["schema"])
        refused = Draft202012Validator(operation["responses"]["default"]["content"]["application/json"]["schema"])
        for body in bodies:
            assert not asked.is_valid(body), body
            answer = client.post(path.format(name="letters"), json=body)
            assert answer.status_code == 400, (body, answer.text)
            refused.validate(answer.json())


def test_bounds_are_those_of_the_hparams(paths):
    schema = paths["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert set(SEARCH_KEYS) < set(schema)
    rules = {name: DecodeHParams.__dataclass_fields__[name].metadata for name in SEARCH_KEYS if name != "seed"}
    for name, rule in rules.items():
        assert (schema[name].get("minimum"), schema[name].get("maximum")) == (rule["minimum"], rule["maximum"])
    assert schema["decode_method"]["enum"] == ["beam", "greedy", "sample", "mask_predict", None]


def test_what_is_served_for_programs(client, app):
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


def test_what_is_served_for_people(client, app):
    page = client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<a>" not in page.text.replace('<a href="/openapi.json">', "")
    assert "&lt;a&gt;" in page.text
    assert all(one.path in page.text for one in app.state.addresses)
