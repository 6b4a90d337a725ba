"""`--target_language` selects the problem of a run of several, in every command that has it; nothing is loaded."""

import pytest
from starlette.testclient import TestClient

import t2t
from t2t.cli import exporter, insight, server
from t2t.errors import UserError
from t2t.hparams.transformer import transformer_tiny
from t2t.runs import loading
from t2t.serving.engine import RequestLimits, ServingEngine
from t2t.serving.routes import build_app
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.in_process import check_refused, refusal
from tests.many_runs import create_run

GERMAN, FRENCH = "translate_ende_multi30k", "translate_enfr_multi30k"
TOKENS = dict.fromkeys(("inputs", "targets"), FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=9))


@pytest.fixture
def run(tmp_path):
    """A run of two problems with a dummy checkpoint."""
    name = f"{GERMAN}-{FRENCH}"
    members = tuple(ProblemSpec(name=one, features=TOKENS) for one in (GERMAN, FRENCH))
    spec, hparams = ProblemSpec(name=name, members=members), transformer_tiny().replace(shared_modalities=True)
    return create_run(tmp_path / "run", name, spec, step=5, hparams=hparams.to_dict()).path


@pytest.fixture(autouse=True)
def _loads_nothing(monkeypatch):
    """Replaces loading: a run that gets its languages raises an error that names them and the problem."""

    class Loaded:
        def __init__(self, output_dir, checkpoint, t2t_usr_dir=None, decode_overrides="", problem="", *rest, **more):
            self.problem = problem

        def with_languages(self, source, target):
            raise UserError(f"{self.problem} from {source} to {target}")

    monkeypatch.setattr(loading, "load", Loaded)


@pytest.fixture
def inspected(run, monkeypatch):
    """Returns a function that starts t2t-insight and has it load the run; returns the error."""

    def inspect(**languages):
        started = []
        monkeypatch.setattr(insight, "run_server", lambda values, addresses, needs_runs: started.append(addresses) or 0)
        assert insight.main(["t2t-insight", str(run), *flags_of(languages)]) == 0
        service = ServingEngine([], RequestLimits(seconds=600.0))  # a busy machine may take minutes to import Keras
        app = build_app(service, ["127.0.0.1"], started[0](service, {}))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            answer = client.post("/insight/load", json={"model": "run"})
        assert answer.status_code == 400
        return answer.json()["error"]

    return inspect


def flags_of(languages):
    return [f"--{name}={value}" for name, value in languages.items()]


def error_of(function, *arguments, **named):
    with pytest.raises(UserError) as error:
        function(*arguments, **named)
    return str(error.value)


def test_the_problem_that_writes_the_language_is_loaded(run, inspected):
    asked = {"source_language": "en", "target_language": "fr"}
    flags = [f"--output_dir={run}", *flags_of(asked)]
    for error in (
        refusal(server, "--port=0", *flags), inspected(**asked), refusal(exporter, *flags),
        error_of(t2t.export_model, run, run.parent / "export", **asked), error_of(t2t.load, run, **asked),
    ):  # fmt: skip
        assert f"{FRENCH} from en to fr" in error


@pytest.mark.parametrize(("command", "flags"), [(server, ["--port=0"]), (exporter, [])])
def test_without_a_language_the_problem_is_to_be_named(run, command, flags):
    check_refused(command, f"--output_dir={run}", *flags, about=f"{run} --problem: {GERMAN}, {FRENCH}")
