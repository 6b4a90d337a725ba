"""The studio pages in a real browser: what they show and store, and that they are accessible.

Slow: nothing quicker runs the scripts of pages.
"""

import contextlib
import functools
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness.load import Server
from t2t.checkpoints.dev_outputs import DevOutputs, add_dev_outputs
from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import trainer
from tests.in_process import call
from tests.integration.conftest import PATIENT, check_for_everybody
from tests.many_runs import write_run, write_runs
from tests.pictures import DRAWS_DOCS, save_picture

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAIR = ("digits@averaged-noisy", "digits@500")
"""Two systems of the run with checkpoints."""
GOLDEN_RUN = Path(__file__).parents[1] / "golden/runs/0.1.0"
RUNS = "?run=group_0/run_00&run=digits"
PAGES = {
    "/": (RUNS, "table.runs tbody tr"),
    "/curves": (RUNS, ".scatterlayer .trace"),
    "/hparams": (RUNS, "table.hparams"),
    "/compare": (f"?a={PAIR[0]}&b={PAIR[1]}&shown=1", ".sentences li"),
    "/outputs": ("?of=digits", "table.versions"),
    "/data": ("?of=digits", ".barlayer .point"),
    "/playground": (f"?a={PAIR[0]}&text=1 2&beam_size=3&n_best=2", ".beam"),
}
"""Query of each page, and what is there once it can be used."""
WIDTH = 1200
SOURCES = ["one house", "the cat sleeps", "<b>a dog</b>"]
OUTPUTS = {
    100: ["house", "the the the", "dog a"],
    200: ["house one", "sleeps the cat", "dog a"],
    300: ["house one", "sleeps the dog", "<b>dog</b> a"],
}
"""Outputs of the run for the sentences, by update."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of runs: three groups, a run in training, one whose name is HTML markup, one with two checkpoints."""
    folder = tmp_path_factory.mktemp("studio")
    write_runs(folder, 6, 400)
    write_run(folder / "live", 40, steps=1000)
    write_run(folder / "<img src=x onerror=alert(1)>", 2)
    shutil.copytree(GOLDEN_RUN / "run", folder / "digits")
    add_noise(CheckpointStore(folder / "digits/checkpoints"))
    for step, outputs in OUTPUTS.items():
        kept = DevOutputs.pick(step, "", SOURCES, [" ".join(reversed(line.split())) for line in SOURCES], outputs)
        add_dev_outputs(folder / "digits/dev_outputs.jsonl", [kept])
    return folder


def add_noise(store):
    """Saves noisy weights as `averaged-noisy`, a system with different translations."""
    loaded, rng = store.load(500), np.random.default_rng(0)
    weights = {**loaded.model, **(loaded.ema or {})}
    noisy = {name: w + 0.3 * w.std() * rng.normal(size=w.shape).astype(w.dtype) for name, w in weights.items()}
    store.save_named("averaged-noisy", 500, model=noisy, state=loaded.state)


@pytest.fixture(scope="module")
def studio(folder):
    flags = ["t2t-insight", PATIENT, str(folder), f"--data_dir={GOLDEN_RUN / 'data'}"]
    with lock_run(folder / "live"), Server(*flags) as one:
        yield f"http://127.0.0.1:{one.port}"


def wait_until(page, holds, what, seconds=120):
    """Waits until `holds()` is true; Playwright's own wait is blocked by the pages' content security policy."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        page.wait_for_timeout(50)


def rows(page):
    """Returns the names of the runs in the table, in order."""
    page.wait_for_selector("table.runs tbody tr")
    return page.locator("table.runs tbody tr").evaluate_all("all => all.map(row => row.dataset.run)")


def cells(page, run):
    row = page.locator(f'table.runs tr[data-run="{run}"]')
    return {name: row.locator(f'[data-column="{name}"]').inner_text() for name in ("state", "step", "changes", "best")}


def test_every_run_is_in_the_table_also_one_that_trains(page, studio):
    page.goto(studio)
    assert len(rows(page)) == 9
    live = cells(page, "live")
    assert (live["state"], live["step"]) == ("training", "400 of 1,000")
    assert cells(page, "group_0/run_00")["state"] == "finished"
    assert cells(page, "group_3/run_03")["changes"] == "learning_rate=0.004, num_heads=1"
    assert cells(page, "digits")["best"].startswith("23.81")
    assert page.get_by_text("9 of 9 runs, 1 training, 0 ticked").count() == 1
    assert page.locator("img").count() == 0


def test_the_table_is_sorted_filtered_and_ticked_and_the_address_keeps_it(page, studio):
    # Without polling: a redraw between the press and the release of a button would lose the click.
    page.add_init_script("window.setInterval = () => 0;")
    page.goto(studio)
    rows(page)
    page.get_by_label("Filter").fill("group num_heads=1")
    wait_until(page, lambda: len(rows(page)) == 2, "two runs are left")
    page.get_by_label("Filter").fill("group")
    wait_until(page, lambda: len(rows(page)) == 6, "six runs are left")
    page.get_by_role("button", name="Differs from the set").click()
    page.get_by_role("button", name="Differs from the set").click()
    expected = [f"group_{n % 5}/run_0{n}" for n in (5, 4, 3, 2, 1, 0)]
    assert rows(page) == expected
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert page.evaluate("document.activeElement.dataset.sort") == "changes"
    page.get_by_label("Tick group_1/run_01").check()
    page.get_by_label("Tick group_3/run_03").check()
    page.reload()
    assert rows(page) == expected
    assert page.get_by_label("Tick group_1/run_01").is_checked()
    assert not page.get_by_label("Tick group_2/run_02").is_checked()
    assert page.get_by_label("Filter").input_value() == "group"
    page.get_by_role("link", name="Hparams").click()
    page.wait_for_selector("table.hparams")
    assert page.locator("table.hparams thead th").all_inner_texts() == ["Hparam", "group_1/run_01", "group_3/run_03"]


def test_hparams_that_differ_are_marked_and_others_are_a_tick_away(page, studio):
    page.goto(f"{studio}/hparams?run=group_0/run_00&run=group_1/run_01")
    page.wait_for_selector("table.hparams tbody tr.differs")
    shown = page.locator("table.hparams tbody tr:not(.section)")
    values = [row.split("\t")[1:] for row in shown.all_inner_texts()]
    assert values == [["1", "2"], ["0.001", "0.002"]]
    page.get_by_label("Differences only").uncheck()
    assert shown.count() > 90
    assert page.locator("table.hparams tr.differs").count() == 2
    page.reload()
    page.wait_for_selector("table.hparams tbody tr.differs")
    assert shown.count() > 90


def drawn(page, figure):
    """Returns name, x and y of the curves of a chart, as parsed by Plotly."""
    read = "plot => (plot._fullData || []).map(({name, x, y}) => ({name, x: [...x], y: [...y]}))"
    return page.locator(f'[data-figure="{figure}"] .plot').evaluate(read)


def figures_of(folder, run, name):
    return [(line["step"], line[name]) for line in RunDir.open(folder / run).metrics() if name in line]


def test_curves_of_the_ticked_runs_are_drawn_over_each_other_with_axes_and_the_pointer_is_told_their_values(
    page, studio, folder
):
    runs = ["group_0/run_00", "group_1/run_01"]
    page.goto(f"{studio}/curves?run={runs[0]}&run={runs[1]}")
    chart = page.locator('[data-figure="dev/bleu"]')
    chart.locator(".scatterlayer .trace").nth(1).wait_for()
    for curve, run in zip(drawn(page, "dev/bleu"), runs, strict=True):
        assert curve["name"] == run
        points = figures_of(folder, run, "dev/bleu")
        assert list(zip(curve["x"], curve["y"], strict=True)) == [(x, pytest.approx(y)) for x, y in points]
    assert chart.locator(".xtitle").text_content() == "updates"
    assert chart.locator(".ytitle").text_content() == "BLEU, 0 to 100"
    assert chart.locator(".xtick").count() > 2
    assert page.locator(".legend li").all_inner_texts() == runs
    last = [f"{run} {figures_of(folder, run, 'dev/bleu')[-1][1]:.4g}" for run in runs]
    assert chart.locator(".plot").get_attribute("aria-label") == f"dev/bleu by updates; last: {', '.join(last)}"
    page.goto(f"{studio}/curves?run=group_0/run_00&run=group_1/run_01&filter=dev/bleu")
    page.locator(".scatterlayer .trace").nth(1).wait_for()
    box = page.locator(".nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    page.wait_for_selector(".hoverlayer .legendtext")
    said = page.locator(".hoverlayer .legendtext").all_text_contents()
    assert [text.partition(" : ")[0] for text in said] == ["group_0/run_00", "group_1/run_01"]


def test_curves_are_smoothed_scaled_and_drawn_by_time(page, studio, folder):
    page.goto(f"{studio}/curves?run=group_0/run_00&filter=train/loss")
    page.wait_for_selector(".scatterlayer .trace")
    values = [value for _, value in figures_of(folder, "group_0/run_00", "train/loss")]
    page.get_by_label("Smoothing").select_option("mean of 5 points")
    wait_until(page, lambda: drawn(page, "train/loss")[0]["y"][2] != values[2], "smoothed")
    assert drawn(page, "train/loss")[0]["y"][10] == pytest.approx(sum(values[8:13]) / 5)
    page.get_by_label("By", exact=True).select_option("hours")
    wait_until(page, lambda: page.locator(".xtitle").text_content().startswith("hours"), "by time")
    assert drawn(page, "train/loss")[0]["x"][-1] == pytest.approx(399 * 3 / 3600)
    page.get_by_label("Log scale").check()
    wait_until(page, lambda: page.locator(".plot").evaluate("p => p._fullLayout.yaxis.type") == "log", "log scale")
    page.reload()
    page.wait_for_selector(".scatterlayer .trace")
    assert page.locator(".plot").evaluate("p => p._fullLayout.yaxis.type") == "log"
    assert drawn(page, "train/loss")[0]["y"][10] == pytest.approx(sum(values[8:13]) / 5)
    assert page.locator(".chart").count() == 1


def test_zooming_in_gets_the_points_of_the_part_for_every_chart_and_can_be_undone(page, studio):
    page.goto(f"{studio}/curves?run=group_0/run_00&filter=train")
    chart = page.locator('[data-figure="train/loss"]')
    chart.locator(".scatterlayer .trace").wait_for()
    box = chart.locator(".nsewdrag").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=8)
    page.mouse.up()
    wait_until(page, lambda: "from=" in page.url, "the address says what is shown")
    wait_until(page, lambda: len(drawn(page, "train/grad_norm")[0]["x"]) < 150, "the other charts follow")
    start, end = (float(value) for value in re.findall(r"(?:from|to)=([\d.]+)", page.url))
    shown = page.locator('[data-figure="train/grad_norm"] .plot').evaluate("p => p._fullLayout.xaxis.range")
    assert shown == [pytest.approx(start), pytest.approx(end)]
    assert (start, end) == (pytest.approx(1000, abs=60), pytest.approx(2000, abs=60))
    page.get_by_role("button", name="Show all").click()
    wait_until(page, lambda: len(drawn(page, "train/grad_norm")[0]["x"]) == 400, "all of it again")
    assert "from=" not in page.url


def test_a_run_that_trains_is_drawn_on(page, studio, folder):
    page.goto(f"{studio}/curves?run=live&filter=train/loss")
    page.wait_for_selector(".scatterlayer .trace")
    run = RunDir.open(folder / "live")
    before = len(drawn(page, "train/loss")[0]["x"])
    run.append_metrics(10_000 + before, {"train/loss": 1.25})
    wait_until(page, lambda: drawn(page, "train/loss")[0]["y"][-1] == 1.25, "the new point")
    assert len(drawn(page, "train/loss")[0]["x"]) == before + 1


def test_the_outputs_of_a_sentence_show_what_changed_and_new_ones_come(page, studio, folder):
    page.goto(f"{studio}/outputs?of=digits")
    versions = page.locator('[data-sentence="2"] table.versions tbody tr')
    versions.nth(2).wait_for()
    assert [row.split("\t")[0] for row in versions.all_inner_texts()] == ["300", "200", "100"]
    read = "all => all.map(one => [one.localName, one.textContent])"
    changed = versions.nth(0).locator("ins, del").evaluate_all(read)
    assert changed == [["del", "cat"], ["ins", "dog"]]
    assert page.locator('[data-sentence="1"] tbody tr').nth(0).locator("th").inner_text() == "200 to 300"
    assert page.locator('[data-sentence="3"] dd').nth(0).inner_text() == "<b>a dog</b>"
    kept = DevOutputs.pick(400, "", SOURCES, [" ".join(reversed(line.split())) for line in SOURCES], ["x", "y", "z"])
    add_dev_outputs(folder / "digits/dev_outputs.jsonl", [kept])
    wait_until(page, lambda: versions.nth(0).locator("ins").inner_text() == "y", "the new evaluation")
    page.get_by_label("Outputs of a sentence").select_option("20")
    assert "most=20" in page.url
    page.get_by_label("Run").select_option("live")
    page.get_by_text("This run has kept no outputs").wait_for()


def test_a_late_response_does_not_replace_what_was_asked_for_after_it(page, studio):
    of_live, held = re.compile(r"dev_outputs\?run=live"), []
    page.goto(f"{studio}/outputs?of=digits")
    page.locator("table.versions").first.wait_for()
    page.route(of_live, lambda route: held.append(route))
    for run in ("live", "digits"):
        with page.expect_request(re.compile(rf"dev_outputs\?run={run}")):
            page.get_by_label("Run").select_option(run)
    with page.expect_response(of_live):
        held[0].continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert page.locator("table.versions").count() > 0


def bars(page, chart):
    """Returns the counts of a histogram's bars that are not empty, by their middle length."""
    # Plotly draws a chart some frames after it is in the page.
    read = "plot => plot._fullData ? [[...plot._fullData[0].x], [...plot._fullData[0].y]] : [[], []]"
    middles, counts = page.locator(f'[data-figure="{chart}"] .plot').evaluate(read)
    return {x: y for x, y in zip(middles, counts, strict=True) if y}


def test_data_are_looked_into_and_pieces_of_a_vocabulary_sorted_and_found(page, studio):
    lines = [line.split() for line in (GOLDEN_RUN / "lines").read_text().splitlines()]
    assert lines
    page.goto(f"{studio}/data?of=digits")
    page.locator(".barlayer .point").first.wait_for()
    found = bars(page, "Lengths of inputs")
    assert sum(found.values()) == 120
    assert page.get_by_text("120 examples of text2text_files. None were dropped").count() == 1
    examples = page.locator("[data-example]")
    numbers = lambda: examples.evaluate_all("all => all.map(one => Number(one.dataset.example))")  # noqa: E731
    wait_until(page, lambda: numbers() == list(range(10)), "the first examples")
    assert "In a batch of" in examples.nth(0).inner_text()
    first = examples.nth(0).locator("dd").nth(0)
    pieces = re.match(r"inputs (\d+) pieces", examples.nth(0).locator("dt").nth(0).inner_text())[1]
    assert len(first.locator(".token").all()) == int(pieces)
    page.get_by_role("button", name="Later examples").click()
    wait_until(page, lambda: numbers() == list(range(10, 20)), "the next examples")
    assert "start=10" in page.url
    page.reload()
    wait_until(page, lambda: numbers() == list(range(10, 20)), "the same after reloading")
    page.get_by_role("button", name="Earlier examples").click()
    wait_until(page, lambda: numbers() == list(range(10)), "the first examples again")
    text = first.locator(".text-of-example").inner_text()
    page.get_by_label("Search in texts").fill(text)
    wait_until(page, lambda: "text=" in page.url and 0 in numbers() and len(numbers()) < 10, "those with the text")
    assert all(text in one for one in examples.all_inner_texts())
    page.get_by_label("Split").select_option("dev")
    wait_until(page, lambda: sum(bars(page, "Lengths of inputs").values()) == 6, "the dev split")
    page.goto(f"{studio}/data?of=digits")
    rows = page.locator("table.pieces tbody tr")
    rows.nth(24).wait_for()
    counts = [int(row.split("\t")[2].replace(",", "")) for row in rows.all_inner_texts()]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 100
    page.get_by_label("Pieces with").fill("7")
    wait_until(page, lambda: all("7" in one.split("\t")[0] for one in rows.all_inner_texts()), "pieces with 7")
    page.get_by_label("Pieces with").fill("")
    page.get_by_label("Order").select_option("least frequent")
    wait_until(page, lambda: rows.nth(0).inner_text().split("\t")[2] == "0", "pieces that never occur")


def test_a_run_whose_data_are_not_there_says_so(plain_page, studio):
    plain_page.goto(f"{studio}/data?of=live")
    plain_page.locator("[role=alert]").wait_for()
    assert "no data of translate_ende_numbers" in plain_page.locator("[role=alert]").inner_text()


LOOK = "document.dispatchEvent(new Event('visibilitychange'))"
"""Makes a page ask the server now."""


@contextlib.contextmanager
def refused(page, address):
    """Within the block the server refuses requests; in the end the page complains, until the server answers again."""
    page.route(address, lambda route: route.fulfill(status=500, json={"error": "no answer"}))
    yield
    page.locator("[role=alert]").wait_for()
    page.unroute(address)
    page.evaluate(LOOK)
    page.locator("[role=alert]").wait_for(state="detached")


@pytest.mark.parametrize("path", ["/", "/curves?run=group_0/run_00", "/outputs?of=digits"])
def test_a_complaint_goes_when_the_server_answers_again(plain_page, studio, path):
    plain_page.goto(f"{studio}{path}")
    plain_page.locator("table, .scatterlayer .trace").first.wait_for()
    with refused(plain_page, "**/insight/runs"):
        plain_page.evaluate(LOOK)
    assert plain_page.locator("table, .scatterlayer .trace").count() > 0


def test_curves_by_hours_that_were_not_answered_are_asked_for_again(plain_page, studio):
    plain_page.goto(f"{studio}/curves?run=group_0/run_00&filter=dev/bleu")
    plain_page.locator(".scatterlayer .trace").first.wait_for()
    with refused(plain_page, "**/insight/curves"):
        plain_page.get_by_label("By", exact=True).select_option("hours")
    assert plain_page.locator(".xtitle").text_content().startswith("hours")
    assert drawn(plain_page, "dev/bleu")[0]["x"][-1] == pytest.approx((399 * 3 + 1) / 3600)


@pytest.fixture
def gone(page):
    """Names to remove from the table of runs that pages get; in it one is damaged, others end in a torn line."""
    names = set()

    def answer(route):
        told = route.fetch(timeout=180_000).json()["runs"]
        rows = [{**row, "size": row["size"] + 5} for row in told if row["run"] not in names]
        route.fulfill(json={"runs": [*rows, {**rows[0], "run": "bad", "state": "damaged"}]})

    page.route("**/insight/runs", answer)
    yield names
    page.unroute_all(behavior="ignoreErrors")  # the page may be asking while it is closed


def test_damaged_runs_are_not_ticked_with_all_others(page, studio, gone):
    page.goto(studio)
    assert "bad" in rows(page)
    page.get_by_label("Tick all that are shown").click()
    page.get_by_text("10 of 10 runs, 1 training, 9 ticked").wait_for()
    assert page.get_by_label("Tick all that are shown").is_checked()
    assert not page.get_by_label("Tick bad").is_checked()


TICKED = "?run=group_0/run_00&run=bad&run=lost&run=group_1/run_01"
LEFT_OUT = "Left out, as they are damaged or gone: bad, lost."


def test_hparams_of_runs_that_are_damaged_or_gone_are_left_out(page, studio, gone):
    page.goto(f"{studio}/hparams{TICKED}")
    page.wait_for_selector("table.hparams")
    assert page.locator("table.hparams thead th").all_inner_texts() == ["Hparam", "group_0/run_00", "group_1/run_01"]
    assert page.locator(".note").all_inner_texts() == [LEFT_OUT]


def colours(page, figure):
    """Returns the colour of each curve of a chart by name."""
    read = "plot => (plot._fullData || []).map(({name, line}) => [name, line.color])"
    return dict(page.locator(f'[data-figure="{figure}"] .plot').evaluate(read))


def test_curves_of_runs_that_are_damaged_or_gone_are_left_out(page, studio, gone):
    page.goto(f"{studio}/curves{TICKED}&filter=dev/bleu")
    page.locator(".scatterlayer .trace").nth(1).wait_for()
    assert page.locator(".legend li").all_inner_texts() == ["group_0/run_00", "group_1/run_01"]
    assert page.locator(".note").nth(1).inner_text() == LEFT_OUT
    before, asked = colours(page, "dev/bleu"), []
    page.on("request", lambda request: asked.append(request.url))
    gone.add("group_0/run_00")
    page.evaluate(LOOK)
    expected = {"group_1/run_01": before["group_0/run_00"]}  # as in the legend
    wait_until(page, lambda: colours(page, "dev/bleu") == expected, "one curve in the first colour")
    assert f"{studio}/insight/curves" not in asked  # only a line that is not complete is new


def fulfill(answer, route):
    route.fulfill(json=answer)


@pytest.mark.parametrize(("own", "search"), [("sample", {"seed": 7}), ("beam", {})])
def test_a_link_asks_a_run_named_none_for_what_its_search_reads(plain_page, studio, own, search):
    found = {"served": False, "latest": 9, "best": None, "names": [], "steps": [9]}
    loaded = {"step": 9, "checkpoint": "9", "language": "", "search": {"decode_method": own}}
    answers = {"runs": {"runs": [{"run": "none", "has_checkpoints": True}]}, "checkpoints": found, "load": loaded}
    for name, answer in answers.items():
        plain_page.route(f"**/insight/{name}*", functools.partial(fulfill, answer))
    plain_page.route("**/insight/search", lambda route: route.fulfill(status=500, json={"error": "no answer"}))
    with plain_page.expect_request("**/insight/search") as asked:
        plain_page.goto(f"{studio}/playground?a=none@9&text=1 2&seed=7")
    sent = asked.value.post_data_json
    assert (sent["model"], sent["search"]) == ("none", search)
    assert ("seed=7" in plain_page.url) == ("seed" in search)


def test_two_systems_are_compared_line_by_line(page, studio):
    page.goto(f"{studio}/compare?a={PAIR[0]}&b={PAIR[1]}")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".sentences li")
    assert page.locator(".sentences li").count() == 6  # the whole dev set
    gains = page.locator(".sentences strong").all_inner_texts()
    numbers = [float(text.replace("\u2212", "-").replace("\u00b1", "")) for text in gains]
    assert numbers == sorted(numbers, reverse=True)
    for line in page.locator(".sentences li").all():
        outputs = line.locator("dd").all_inner_texts()[2:]
        assert (outputs[0] == outputs[1]) == (line.locator("ins, del").count() == 0)
    assert page.locator("ins").count() > 0
    assert page.locator("del").count() > 0
    page.get_by_label("Order").select_option("as in the set")
    order = page.locator(".sentences li").evaluate_all("all => all.map(line => Number(line.dataset.line))")
    assert order == [1, 2, 3, 4, 5, 6]
    page.reload()
    page.wait_for_selector(".sentences li")
    assert page.get_by_label("Order").input_value() == "as in the set"


def test_lines_of_ones_own_are_compared_and_blank_ones_keep_the_pairs(page, studio):
    page.goto(f"{studio}/compare?a={PAIR[0]}&b={PAIR[0]}")
    page.get_by_label("Lines").select_option("lines of your own")
    page.get_by_label("Inputs, a line each").fill("1 2\n\n4 5\n\n")
    page.get_by_label("References, a line each").fill("2 1\n5 4\n")
    page.get_by_role("button", name="Compare").click()
    page.locator("[role=alert]").wait_for()
    assert page.locator("[role=alert]").inner_text().startswith("3 inputs and 2 references")
    page.get_by_label("References, a line each").fill("2 1\n\n5 4\n")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".sentences li")
    assert page.get_by_text("3 of 3 outputs are the same").count() == 1
    assert page.locator(".sentences strong").all_inner_texts() == ["\u00b10.0"] * 3
    page.get_by_label("Order").select_option("as in the set")
    assert [line.locator("dd").all_inner_texts()[:2] for line in page.locator(".sentences li").all()] == [
        ["1 2", "2 1"], ["", ""], ["4 5", "5 4"],
    ]  # fmt: skip


def test_a_checkpoint_is_looked_at_in_the_playground(page, studio):
    page.goto(f"{studio}/playground?a=digits@averaged&text=1 2")
    page.wait_for_selector(".beam")
    page.wait_for_selector(".panels-side-by-side[aria-busy=false]")
    assert page.locator(".panel > .status").inner_text() == "digits after 500 updates"
    assert page.locator(".strokes line").count() > 0


@pytest.mark.parametrize(
    ("asked", "run", "checkpoint"),
    [("a=lr@0.1", "lr@0.1", "latest (500)"), ("run=lr@0.1", "lr@0.1", "latest (500)"), ("a=lr@0.1@9", "lr@0.1", "9"),
     ("a=lr@9", "lr", "9")],
)  # fmt: skip
def test_a_run_whose_name_has_an_at_sign_is_chosen(page, studio, asked, run, checkpoint):
    runs = [{"run": name, "has_checkpoints": True} for name in ("digits", "lr", "lr@0.1")]
    found = {"served": False, "latest": 500, "best": None, "names": [], "steps": [9, 500]}
    page.route("**/insight/runs", lambda route: route.fulfill(json={"runs": runs}))
    page.route("**/insight/checkpoints*", lambda route: route.fulfill(json=found))
    page.goto(f"{studio}/playground?{asked}")
    chosen = page.locator(".system").first
    chosen.get_by_label("Checkpoint").wait_for()
    selected = chosen.locator("select").evaluate_all("all => all.map(one => one.selectedOptions[0].text)")
    assert selected == [run, checkpoint]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_pages_are_for_everybody_and_fit_a_phone(browser, studio, path, scheme):
    query, ready = PAGES[path]

    def wait(page):
        page.wait_for_selector(ready)
        if path == "/playground":
            page.wait_for_selector(".panels-side-by-side[aria-busy=false]")  # redrawing a panel would lose the click
            page.locator(".output-piece").first.click()
            page.wait_for_selector(".phrase")
            page.get_by_label("Beside it").select_option("attention rollout")

    for width in (1300, 390):
        page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
        check_for_everybody(page, f"{studio}{path}{query}", wait, width)


def test_every_control_is_reached_by_keys(page, studio):
    page.goto(studio)
    rows(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    reached = set()
    name = "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(name).strip("\u25b4"))
    assert {"Runs", "Curves", "Playground", "Tick all that are shown", "Best", "Tick live"} <= reached


@pytest.fixture
def phrases(studio, tmp_path):
    """A studio, a run and two of its systems: digits, or, to draw the documentation, translated phrases."""
    if not DRAWS_DOCS:
        yield studio, "digits", PAIR
        return
    call(
        trainer, "--problem=translate_ende_numbers", "--model=transformer", "--hparams_set=transformer_quickstart",
        f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/runs/phrases", "--generate_data", "--worker_cpu=1",
        "--train_steps=600", "--local_eval_frequency=150", "--eval_steps=2",
        "--hparams=learning_rate_schedule=constant",
    )  # fmt: skip
    with Server("t2t-insight", PATIENT, f"{tmp_path}/runs", f"--data_dir={tmp_path}/data") as one:
        yield f"http://127.0.0.1:{one.port}", "phrases", ("phrases@450", "phrases@600")


def test_pictures_for_the_documentation_can_be_drawn(browser, studio, phrases, tmp_path):
    """With T2T_IMAGES=docs it redraws the pictures of the documentation."""
    own, run, (first, second) = phrases
    three = "&".join(f"run=group_{n}/run_0{n}" for n in range(3))
    for name, address, ready, height in (
        ("curves.png", f"{studio}/curves?{three}", ".scatterlayer .trace", 590),
        ("compare.png", f"{own}/compare?a={first}&b={second}&shown=1", ".sentences li", 960),
        ("data.png", f"{own}/data?of={run}", ".barlayer .point", 960),
        ("outputs.png", f"{own}/outputs?of={run}", "table.versions", 600),
    ):
        page = browser.new_page(viewport={"width": WIDTH, "height": height})
        page.set_default_timeout(180_000)
        page.goto(address)
        page.wait_for_selector(ready)
        page.wait_for_timeout(1500)
        assert save_picture(page.screenshot(), name, tmp_path) == (WIDTH, height)
        page.close()
