"""The Playground in a real browser: requests, outputs, figures and the state that it keeps.

Slow: nothing quicker runs the scripts of pages.
"""

import math
import os
import urllib.parse

import pytest

import t2t
from benchmarks.harness.load import Server
from t2t.cli import trainer
from t2t.inference.attention import attention_rollout
from tests.in_process import call
from tests.integration.conftest import PATIENT, TINY
from tests.integration.test_browser import choose, expected_lines, lines_of
from tests.integration.test_studio import wait_until
from tests.pictures import save_picture

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SEARCH = {"beam_size": 4, "alpha": 10}
"""A strong length penalty, so that a model of few updates writes any words."""


@pytest.fixture(scope="module")
def translator(tiny_run):
    return t2t.load(str(tiny_run.output_dir))


@pytest.fixture(scope="module")
def insight(tiny_run):
    with Server("t2t-insight", PATIENT, *(f"--output_dir={name}={tiny_run.output_dir}" for name in "ab")) as one:
        yield f"http://127.0.0.1:{one.port}/"


def translated(page, address, text, target=""):
    page.goto(f"{address}playground")
    page.get_by_label("Text").fill(text)
    page.get_by_label("Output").fill(target)
    page.get_by_role("button", name="Translate").click()
    page.wait_for_selector("[data-model=b] .beam")
    page.wait_for_selector("[aria-busy=false]")
    return page.locator("[data-model=a]"), page.locator("[data-model=b]")


def test_a_sentence_is_translated_and_two_runs_stand_beside_each_other(page, insight, translator):
    first, second = translated(page, insight, "7 8 9")
    best = translator.translate(["7 8 9"])[0][0].text
    for panel in (first, second):
        assert panel.locator("dd.output").inner_text() == best
        assert lines_of(panel) == expected_lines(translator.attend("7 8 9").maps["encoder"].weights[0])
    first.get_by_role("button", name="Head 1").click()
    assert {head for head, _, _ in lines_of(first)} == {0}
    assert {head for head, _, _ in lines_of(second)} == {0, 1}


def test_after_another_piece_is_forced_all_that_is_shown_belongs_to_the_new_text(page, insight, translator):
    panel, _ = translated(page, insight, "7 8 9")
    ranked = panel.locator("li[data-rank='1']")
    old = translator.translate(["7 8 9"])[0][0].text
    assert old in ranked.inner_text()
    panel.locator(".beam-piece").first.click()
    choices = panel.locator(".alternatives button.force")
    choices.first.wait_for()
    forced = choices.nth(2).inner_text()
    choices.nth(2).click()
    page.wait_for_selector("[data-model=a][aria-busy=false]")
    new = panel.locator("dd.output").inner_text()
    assert new != old
    assert new.split()[0] == forced == panel.locator(".beam-piece").first.inner_text()
    assert ranked.locator(".beam-text").last.inner_text().strip() == new
    (score,) = translator.score([("7 8 9", new)])
    assert float(panel.locator("dd.log-probability").inner_text()) == pytest.approx(score, abs=2e-3)
    assert float(ranked.locator(".log-prob").first.inner_text()) == pytest.approx(score, abs=2e-3)
    page.mouse.move(0, 0)  # under the pointer a piece shows only its own lines
    assert lines_of(panel) == expected_lines(translator.attend("7 8 9", new).maps["encoder"].weights[0])
    choose(panel, "Attention", "Encoder-decoder attention")
    assert lines_of(panel) == expected_lines(translator.attend("7 8 9", new).maps["encoder_decoder"].weights[0])
    assert panel.locator(".alternatives table").count() == 0
    panel.locator(".beam-piece").nth(1).click()
    panel.locator(".alternatives caption").wait_for()
    assert panel.locator(".alternatives caption").inner_text().startswith(f"After {forced}; ")


def asked(page, insight, **parameters):
    """Opens the Playground with the URL's parameters, waits until one model has answered, and returns its panel."""
    query = urllib.parse.urlencode({"a": "a@", "text": "7 8 9", **SEARCH, **parameters}, doseq=True)
    page.goto(f"{insight}playground?{query}")
    return answered(page)


def answered(page):
    page.wait_for_selector("[data-model=a][aria-busy=false] .figure")
    page.wait_for_selector(".panels-side-by-side[aria-busy=false]")
    return page.locator("[data-model=a]")


def output_of(panel):
    return panel.locator("dd.output").inner_text()


def test_pieces_have_the_shade_and_the_number_of_their_probability(page, insight, translator):
    panel = asked(page, insight)
    (best,) = translator.translate(["7 8 9"], token_scores=True, alignments=True, **SEARCH)[0]
    pieces = panel.locator(".output-piece")
    probabilities = [math.exp(log_prob) for _, log_prob in best.tokens]
    said = pieces.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert [text.rpartition(" ")[0] for text in said] == [f"{piece}, probability" for piece, _ in best.tokens]
    assert [float(text.rpartition(" ")[2]) for text in said] == pytest.approx(probabilities, abs=1e-3)
    steps = [0.9, 0.7, 0.5, 0.2, 0.0]
    shades = [next(i for i, least in enumerate(steps) if probability >= least) for probability in probabilities]
    classes = pieces.evaluate_all("all => all.map(one => one.className)")
    assert classes == [f"output-piece shade-{shade}" for shade in shades]
    assert panel.locator(".legend li").count() == len(steps)
    for index in range(len(best.text.split())):
        pieces.nth(index).focus()
        source = next(source for source, target in best.alignment if target == index)
        marked = panel.locator(".source-word.aligned")
        assert marked.all_inner_texts() == [["7", "8", "9"][source]]
        assert f"of word {index + 1}, {best.text.split()[index]}; " in panel.locator(".piece-readout").inner_text()


def test_another_piece_is_chosen_in_the_output_and_dropped_again(page, insight, translator):
    panel = asked(page, insight)
    before = output_of(panel)
    panel.locator(".output-piece").nth(1).click()
    choices = panel.locator(".alternatives button.force")
    choices.first.wait_for()
    chosen = choices.nth(2).inner_text()
    choices.nth(2).click()
    answered(page)
    begun = f"{before.split()[0]} {chosen}"
    assert output_of(panel) == translator.translate(["7 8 9"], prefixes=[begun], **SEARCH)[0][0].text
    assert output_of(panel).startswith(begun)
    panel.get_by_role("button", name="Drop this beginning").click()
    answered(page)
    assert output_of(panel) == before


@pytest.fixture(scope="module")
def language_model(tiny_run, tmp_path_factory):
    """Folder of a run that continues sequences of digits."""
    folder = tmp_path_factory.mktemp("language_model")
    hparams = TINY.removeprefix("num_encoder_layers=1,")  # it has no encoder
    files = [f"--{split}_file={tiny_run.raw_dir}/{split}.source" for split in ("train", "dev")]
    call(
        trainer, *files, "--problem=languagemodel_files", "--vocab_kind=token", f"--data_dir={folder}/data",
        "--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={hparams}", "--worker_cpu=1",
        "--generate_data", f"--output_dir={folder}/run", "--train_steps=20",
    )  # fmt: skip
    return folder / "run"


def test_a_language_model_continues_its_text_and_the_pieces_that_are_chosen(page, language_model):
    continuer = t2t.load(str(language_model))
    with Server("t2t-insight", PATIENT, f"--output_dir=a={language_model}") as server:
        panel = asked(page, f"http://127.0.0.1:{server.port}/")
        written = output_of(panel).split()
        assert written[:3] == ["7", "8", "9"]
        assert panel.locator(".beam span.beam-piece").all_inner_texts() == ["7 ", "8 ", "9 "]  # nothing to choose
        panel.locator(".output-piece").nth(2).click()
        assert panel.locator(".piece-readout").inner_text().startswith("9: probability")
        panel.locator(".output-piece").nth(4).click()
        caption, choices = panel.locator(".alternatives caption"), panel.locator(".alternatives button.force")
        choices.first.wait_for()
        assert caption.inner_text().startswith(f"After {written[3]}; ")
        chosen = choices.nth(2).inner_text()
        choices.nth(2).click()
        answered(page)
        begun = f"7 8 9 {written[3]} {chosen}"
        assert output_of(panel) == continuer.translate([begun], **SEARCH)[0][0].text
        assert panel.locator("li[data-rank='1'] .beam-text").last.inner_text().strip() == output_of(panel)
        panel.locator(".beam button.beam-piece").nth(1).click()
        caption.wait_for()
        assert caption.inner_text().startswith(f"After {written[3]}; ")


def test_a_word_is_forbidden_and_another_required_by_a_click(page, insight, translator):
    panel = asked(page, insight)
    word = output_of(panel).split()[0]
    panel.locator(".output-piece").first.click()
    panel.get_by_role("button", name="Forbid").click()
    wait_until(page, lambda: f"avoid={word}" in page.url, "the address has it")
    panel = answered(page)
    forbidden = {"avoid": [word]}
    assert output_of(panel) == translator.translate(["7 8 9"], constraints=[forbidden], **SEARCH)[0][0].text
    assert word not in output_of(panel).split()
    panel.locator(".output-piece").first.click()
    panel.get_by_label("Phrase").fill("5 5")
    panel.get_by_role("button", name="Require").click()
    wait_until(page, lambda: "constraints=5" in page.url, "the address has it")
    panel = answered(page)
    both = {**forbidden, "constraints": ["5 5"]}
    assert output_of(panel) == translator.translate(["7 8 9"], constraints=[both], **SEARCH)[0][0].text
    assert panel.locator("li[data-rank='1'] .beam-text").last.inner_text().strip() == output_of(panel)


def test_a_phrase_is_marked_with_the_mouse_and_a_third_model_stands_beside_the_others(page, insight):
    panel = asked(page, insight)
    panel.locator("dd.output").dblclick(position={"x": 3, "y": 8})
    assert panel.get_by_label("Phrase").input_value() == output_of(panel).split()[0]
    page.goto(f"{insight}playground?a=a@20&b=b@20&c=a@40&text=7 8 9")
    page.wait_for_selector(".panels-side-by-side[aria-busy=false] .beam")
    said = page.locator(".panel > .status").all_inner_texts()
    assert said == ["a after 20 updates", "b after 20 updates", "a after 40 updates"]
    assert page.get_by_role("button", name="Another model").count() == 0  # the fourth is there, of none


def test_how_it_is_searched_is_set_by_fields_and_kept_in_the_address(page, insight, translator):
    panel = asked(page, insight)
    assert page.get_by_label("Beam size").is_visible()  # parameters in the URL are visible
    assert page.get_by_label("Beam size").get_attribute("placeholder") == "2"
    assert page.get_by_label("Temperature").is_disabled()
    page.get_by_label("Beam size").fill("3")
    page.get_by_label("How many").fill("3")
    page.get_by_role("button", name="Translate").click()
    wait_until(page, lambda: panel.locator("table.found tbody tr").count() == 3, "three outputs")
    panel = answered(page)
    expected = translator.translate(["7 8 9"], 3, beam_size=3, alpha=10)[0]
    assert panel.locator("table.found button").all_inner_texts() == [one.text or "\u2205" for one in expected]
    panel.locator("table.found button").nth(1).click()
    wait_until(page, lambda: output_of(panel) == expected[1].text, "the second is looked into")
    page.reload()
    panel = answered(page)
    assert page.get_by_label("Beam size").input_value() == "3"
    assert panel.locator("table.found button").count() == 3
    page.get_by_label("Search", exact=True).select_option("sample")
    wait_until(page, lambda: page.get_by_label("Beam size").is_disabled(), "no beam is searched")
    page.get_by_label("Seed").fill("4")
    page.get_by_label("How many").fill("1")
    page.get_by_role("button", name="Translate").click()
    sampled = translator.translate(["7 8 9"], decode_method="sample", seed=4)[0][0].text
    wait_until(page, lambda: "seed=4" in page.url, "the address has it")
    panel = answered(page)
    assert output_of(panel) == sampled
    assert panel.locator(".beam *").count() == 0


def test_rollout_stands_beside_attention_and_all_heads_are_seen_at_a_glance(page, insight, translator):
    panel = asked(page, insight)
    looked = translator.attend("7 8 9", **SEARCH)
    rollout = attention_rollout(looked.maps)
    choose(panel, "Beside it", "attention rollout")
    first, second = panel.locator(".picture .panel").all()
    assert lines_of(first) == expected_lines(looked.maps["encoder"].weights[0])
    assert lines_of(second) == expected_lines(rollout["encoder"][0])
    choose(panel, "Attention", "Encoder-decoder attention")
    layers = panel.get_by_label("Layer", exact=True).locator("option").all_inner_texts()
    choose(panel, "Layer", layers[-1])
    assert lines_of(panel.locator(".picture .panel").nth(1)) == expected_lines(rollout["encoder_decoder"][-1])
    choose(panel, "Show", "All heads")
    small = panel.locator(".small-head")
    layer_count, heads = looked.maps["encoder_decoder"].weights.shape[:2]
    assert small.count() == layer_count * heads
    sharp = looked.maps["encoder_decoder"].weights[1, 1].max(axis=-1).mean()
    label = small.nth(heads + 1).get_attribute("aria-label")
    assert label == f"Layer 2, head 2; largest weights {sharp:.2f} on average"
    small.nth(heads + 1).click()
    assert panel.get_by_label("Layer", exact=True).input_value() == layers[1]
    pressed = panel.locator(".head").evaluate_all("all => all.map(one => one.getAttribute('aria-pressed'))")
    assert pressed == ["false", "true"]


def test_a_view_is_kept_as_a_file_that_needs_nobody(page, insight, tmp_path):
    page.goto(f"{insight}playground?a=a@&b=b@20&text=7 8 <9>&beam_size=3")
    page.wait_for_selector(".panels-side-by-side[aria-busy=false] .beam")
    shown = [output_of(panel) for panel in page.locator("section.panel").all()]
    pieces = page.locator(".output-piece").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a file").click()
    download.value.save_as(tmp_path / "view.html")
    page.goto(f"file://{tmp_path / 'view.html'}")
    figures = page.locator(".figure")
    assert [output_of(figure) for figure in figures.all()] == shown
    assert figures.locator("dd.input").all_inner_texts() == ["7 8 <9>"] * 2
    assert figures.locator("dd.search").all_inner_texts() == ["beam_size 3"] * 2
    kept = page.locator(".output-piece").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert kept == pieces
    assert figures.locator("li[data-rank='1']").count() == 2
    assert figures.locator(".beam button").count() == 0
    figures.first.locator(".output-piece").first.click()
    assert "probability" in figures.first.locator(".piece-readout").inner_text()


@pytest.fixture
def shown_run(insight):
    """A server, one of its models and a text; to draw the documentation, of the English run T2T_RUN."""
    if "T2T_RUN" not in os.environ:
        yield insight, "a", "7 8 9"
        return
    with Server("t2t-insight", PATIENT, f"--output_dir=run={os.environ['T2T_RUN']}") as one:
        yield f"http://127.0.0.1:{one.port}/", "run", "A man in a red shirt is riding a bicycle down the street."


def test_pictures_for_the_documentation_can_be_drawn(browser, shown_run, tmp_path):
    """With T2T_IMAGES=docs and T2T_RUN=RUN it redraws the pictures of the documentation."""
    address, model, text = shown_run
    page = browser.new_page(viewport={"width": 900, "height": 880})
    page.set_default_timeout(180_000)
    page.goto(f"{address}playground?{urllib.parse.urlencode({'a': f'{model}@', 'text': text})}")
    page.wait_for_selector(".panels-side-by-side[aria-busy=false] .beam")
    panel = page.locator("section.panel")
    piece = min(4, panel.locator(".output-piece").count() - 1)
    panel.locator(".output-piece").nth(piece).focus()
    assert "probability" in panel.locator(".piece-readout").inner_text()
    page.evaluate("window.scrollTo(0, 0)")
    assert save_picture(page.screenshot(), "playground.png", tmp_path) == (900, 880)
    choose(panel, "Attention", "Encoder-decoder attention")
    layers = panel.get_by_label("Layer")
    layers.select_option(index=max(0, layers.locator("option").count() - 2))
    panel.locator(".attention .piece").nth(piece).hover()
    for name in ("attention", "beam"):
        width, height = save_picture(panel.locator(f".{name}").screenshot(), f"{name}.png", tmp_path)
        assert width > 300
        assert height > 100
    page.close()


def test_mistakes_are_said_in_the_page(plain_page, insight):
    plain_page.goto(f"{insight}playground")
    plain_page.get_by_label("Text").fill("1 2")
    plain_page.get_by_label("Output").fill("1 " * 3000)
    plain_page.get_by_role("button", name="Translate").click()
    error = plain_page.locator("[role=alert]").first
    error.wait_for()
    assert error.inner_text().startswith("target 1 of 1: it has 3001 ids")
