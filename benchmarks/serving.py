"""Measures the server: requests per second and latencies with several numbers of clients, and under overload."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.decoding import TRAINED, trained_run
from benchmarks.harness.flags import Setting, build_parser, settings
from benchmarks.harness.load import Load, Server, ask_for
from benchmarks.harness.rows import Row, row
from benchmarks.harness.turns import Figures, least_disturbed
from t2t.inference.engine import CTRANSLATE2, TENSORFLOW, ctranslate2_is_installed
from t2t.specs import TEST

WORK = "serving"

PERCENTILES = (50, 95, 99)

SMALL_ROOM = 16
"""Queue length of the server in the overload test, in texts."""


def main(argv: list[str]) -> int:
    """Runs the measurement; returns its exit status."""
    parser = build_parser(WORK, __doc__, {})
    parser.set_defaults(turns=1)
    parser.add_argument("--run", type=Path, help="run directory of a trained model; default: train one")
    parser.add_argument("--engines", default=",".join(_engines()), help="decoding engines to measure")
    parser.add_argument("--clients", default="1,8,64", help="numbers of clients; each sends one request at a time")
    parser.add_argument("--seconds", type=float, default=15.0, help="duration of the load for each number of clients")
    parser.add_argument("--warm_up", type=float, default=5.0, help="seconds of load that are not measured")
    parser.add_argument("--beam", type=int, default=4, help="beam size")
    arguments = parser.parse_args(argv)
    setting = settings(arguments)
    run = arguments.run or trained_run(setting, setting.corpus(), TRAINED.get(setting.config.name, 1))
    texts = [source for source, _ in setting.corpus().pairs(TEST)]
    counts = [int(count) for count in arguments.clients.split(",")]
    rows = [one for engine in arguments.engines.split(",") for one in _served(setting, engine, run, texts, counts)]
    return setting.finish(rows)


def _engines() -> list[str]:
    return [TENSORFLOW, *([CTRANSLATE2] if ctranslate2_is_installed() else [])]


def _served(setting: Setting, engine: str, run: Path, texts: Sequence[str], counts: Sequence[int]) -> list[Row]:
    """Returns the rows of a server with the given engine."""
    most, warm_up, rows = max(counts), setting.arguments.warm_up, []
    flags = ("t2t-server", f"--output_dir=run={run}", f"--decode_beam_size={setting.arguments.beam}")
    flags = (*flags, f"--engine={engine}")
    with Server(*flags) as server:
        ask_for(server.port, texts, most, warm_up)
        for clients in counts:
            loads = _take(setting, server, texts, clients)
            rows += _rows(setting, f"{WORK}.{engine}.clients{clients}", loads)
    with Server(*flags, f"--queue_texts={SMALL_ROOM}") as server:
        ask_for(server.port, texts, most, warm_up)
        loads = _take(setting, server, texts, most)
        rows += _rows(setting, f"{WORK}.{engine}.clients{most}.room{SMALL_ROOM}", loads)
    return rows


def _take(setting: Setting, server: Server, texts: Sequence[str], clients: int) -> list[Load]:
    """Returns the load of each turn; repeats turns that other processes disturbed."""
    seconds, again = setting.arguments.seconds, setting.conditions.again

    def measure() -> Figures:
        load = ask_for(server.port, texts, clients, seconds)
        return {"load": load, "others": load.others}

    return [least_disturbed(measure, again)["load"] for _ in range(setting.turns)]


def _rows(setting: Setting, work: str, loads: list[Load]) -> list[Row]:
    def one(name: str, read, unit: str, better: str = "lower") -> Row:
        return row(f"{work}.{name}", setting.config.name, [read(load) for load in loads], unit=unit, better=better,
                   ours_others=[load.others for load in loads])  # fmt: skip

    found = [one("answered", lambda load: load.statuses[200] / load.seconds, "requests/s", "higher")]
    for percent in PERCENTILES:
        found.append(one(f"p{percent}", lambda load, p=percent: load.percentile(p), "ms"))
    found.append(one("refused", lambda load: load.statuses[429] / load.seconds, "requests/s"))
    if all(load.statuses[429] for load in loads):
        found.append(one("refused.p99", lambda load: load.percentile(99, 429), "ms"))
    found.append(one("lost", lambda load: load.lost, "requests"))
    others = one(
        "other_statuses", lambda load: sum(load.statuses.values()) - load.statuses[200] - load.statuses[429], ""
    )
    found.append(others)
    return [
        *found,
        one("texts_of_two_translations", lambda load: sum(len(t) > 1 for t in load.texts.values()), "texts"),
    ]
