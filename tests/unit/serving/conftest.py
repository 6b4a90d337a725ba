"""Models that are served in tests, each built once, so that each of its searches is compiled once; and their server."""

import contextlib
import dataclasses

import pytest
from starlette.testclient import TestClient

from t2t.serving.engine import RequestLimits, ServingEngine
from t2t.serving.models import BatchLimits, ServedModel
from t2t.serving.routes import build_app
from t2t.specs import EOS_ID
from t2t.text.byte import ByteEncoder
from tests.builders import numpy
from tests.letters import Letters, enlarge, letters, letters_alone, translator_of

HOST = "127.0.0.1"
PATIENT = RequestLimits(seconds=600.0)
"""Limits that no request of a test exceeds while a busy machine compiles its search."""


def various(problem, seed=2):
    """Returns a translator with one layer whose outputs vary, and seldom end, so that they are long."""
    found = translator_of(problem, num_hidden_layers=1)
    target = enlarge(found.model, seed).target_embedding.table
    table = numpy(target)
    table[EOS_ID] = 0.0
    target.assign(table)
    return found


@pytest.fixture(scope="session")
def translator():
    """From letters to letters."""
    return various(letters())


@pytest.fixture(scope="session")
def continuer():
    """A language model of letters."""
    return various(letters_alone())


@pytest.fixture(scope="session")
def in_bytes():
    """From bytes to bytes."""
    return various(Letters().with_encoders(dict.fromkeys(("inputs", "targets"), ByteEncoder())))


@contextlib.contextmanager
def serving(*models, **limits):
    """Context with a client of a service, and the service."""
    service = ServingEngine(models, dataclasses.replace(PATIENT, **limits))
    with TestClient(build_app(service, [HOST]), base_url=f"http://{HOST}") as client:
        yield client, service


@pytest.fixture(scope="session")
def client(translator, continuer, in_bytes):
    """A client of models that all tests of requests share."""
    problem = letters()
    problem.source_language = "<a>"
    narrow = BatchLimits(beam=5)
    models = [
        ServedModel("letters", translator, 40, limits=narrow), ServedModel("pairs", translator, 40, n_best=2),
        ServedModel("other", various(problem, seed=4), 7),
        ServedModel("alone", continuer, 3), ServedModel("bytes", in_bytes, 1),
    ]  # fmt: skip
    with serving(*models, most_bytes=4000, most_texts=6) as (client, _):
        yield client


def events_of(answer):
    """Returns the data of a streamed answer's events."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, end = answer.text.split("\n\n")
    assert end == ""
    assert all(event.startswith("data: ") for event in events)
    return [event.removeprefix("data: ") for event in events]
