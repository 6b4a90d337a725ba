"""Measures how long pages of t2t-insight take to load in a browser, with many long runs.

The browser's clock measures two times from the start of the navigation: until the page is usable (the table with its
check boxes, the first curves), and until it is complete. Of the charts only the first counts, since others are drawn
when they are scrolled into view. Each turn starts a new server, so nothing is cached.
Needs Chromium and the extra `browser`.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.load import Server
from t2t.errors import UserError, needs_extra
from tests.many_runs import write_runs

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class View(NamedTuple):
    """A page, and the elements that mark it as usable and as complete."""

    name: str
    path: str
    first: str
    """CSS selector of an element that makes the page usable."""
    last: str
    """CSS selector of the last element; {runs} stands for the number of runs."""


VIEWS = (
    View("Runs", "/", "table.runs tbody tr input", "table.runs tbody tr:nth-child({runs}) input"),
    View("Curves", "/curves", ".scatterlayer .trace", ".chart:first-child .scatterlayer .trace:nth-child({runs})"),
    View("Hparams", "/hparams", "table.hparams tbody td", "table.hparams tbody tr:last-child td"),
)


def main(argv: list[str]) -> int:
    """Measures every page; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pages", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="number of runs")
    parser.add_argument("--points", type=int, default=5000, help="points of each training curve")
    parser.add_argument("--turns", type=int, default=5, help="number of times that each page is opened")
    arguments = parser.parse_args(argv)
    with needs_extra("browser", "the benchmark of pages"):
        from playwright.sync_api import sync_playwright
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise UserError(f"no browser: none of {', '.join(CHROMIUM)} is installed; install one")
    times: dict[str, list[tuple[float, float]]] = {view.name: [] for view in VIEWS}
    with tempfile.TemporaryDirectory(prefix="t2t-benchmark-") as folder, sync_playwright() as driver:
        write_runs(Path(folder), arguments.runs, arguments.points)
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for _ in range(arguments.turns):
            with Server("t2t-insight", folder) as server:
                for view in VIEWS:
                    times[view.name].append(_open(browser, f"http://127.0.0.1:{server.port}", view, arguments.runs))
        browser.close()
    print(f"{arguments.runs} runs of {arguments.points:,} points, median of {arguments.turns} turns, in seconds")
    print("| page | until it can be used | until all is there |\n|---|---|---|")
    for name, turns in times.items():
        first, last = (statistics.median(one) for one in zip(*turns, strict=True))
        print(f"| {name} | {first:.2f} | {last:.2f} |", flush=True)
    return 0


def _open(browser, address: str, view: View, runs: int) -> tuple[float, float]:
    """Returns the seconds from the start of the navigation until the page is usable, and until it is complete."""
    with browser.new_context(viewport={"width": 1300, "height": 1000}) as context:
        page = context.new_page()
        page.goto(address + view.path, wait_until="commit")
        seen = []
        for selector in (view.first, view.last.format(runs=runs)):
            page.wait_for_selector(selector, state="attached", timeout=120_000)
            seen.append(page.evaluate("performance.now()") / 1000)
    return seen[0], seen[1]
