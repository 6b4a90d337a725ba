"""An attention page in a real browser: it loads, draws, reacts to mouse and keyboard, and escapes text.

Slow: nothing quicker runs the scripts of pages.
"""

import numpy as np
import pytest

import t2t
from t2t.cli import decoder
from tests.in_process import call

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = '1 2 <img src=x onerror=alert(1)></script><script>alert(2)</script> "3'
LONG = " ".join("0123456789"[i % 10] for i in range(45))


@pytest.fixture(scope="module")
def translator(tiny_run):
    return t2t.load(str(tiny_run.output_dir))


@pytest.fixture(scope="module")
def drawn(tiny_run, tmp_path_factory):
    """URL of a page with three attention figures."""
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "lines").write_text(f"1 2 3\t3 2 1\n{HOSTILE}\n{LONG}\t{LONG}\n")
    flags = {"output_dir": tiny_run.output_dir, "decode_from_file": folder / "lines"}
    call(decoder, **flags, attention_to_html=folder / "a.html")
    return f"file://{folder / 'a.html'}"


def lines_of(figure):
    """Returns (head, query, key) -> opacity of every line."""
    found = figure.locator(".strokes line").evaluate_all(
        "all => all.map(l => [l.dataset.head, l.dataset.query, l.dataset.key, l.getAttribute('stroke-opacity')])"
    )
    return {tuple(map(int, line[:3])): float(line[3]) for line in found}


def choose(figure, label, option):
    figure.get_by_label(label, exact=True).select_option(option)


def expected_lines(weights_HQK, **only):
    """Returns the lines expected for attention weights, optionally only of one `head` or one `query`."""
    return {
        (h, q, k): pytest.approx(weight, abs=2e-4)
        for (h, q, k), weight in np.ndenumerate(weights_HQK)
        if weight >= 0.03 and only.get("head", h) == h and only.get("query", q) == q
    }


def test_lines_are_as_dark_as_the_models_weights(page, drawn, translator):
    page.goto(drawn)
    figure = page.locator(".figure").nth(0)
    maps = translator.attend("1 2 3", "3 2 1").maps
    names = ["Encoder self-attention", "Decoder self-attention", "Encoder-decoder attention"]
    for name, seen in zip(names, maps.values(), strict=True):
        choose(figure, "Attention", name)
        for layer, label in enumerate(figure.get_by_label("Layer", exact=True).locator("option").all_inner_texts()):
            choose(figure, "Layer", label)
            assert lines_of(figure) == expected_lines(seen.weights[layer])


def test_heads_and_pieces_are_chosen_by_pointer_and_by_keys(page, drawn, translator):
    page.goto(drawn)
    figure = page.locator(".figure").nth(0)
    weights_HQK = translator.attend("1 2 3", "3 2 1").maps["encoder"].weights[0]
    before = figure.locator(".picture").screenshot()
    second = figure.get_by_role("button", name="Head 2")
    second.click()
    assert lines_of(figure) == expected_lines(weights_HQK, head=1)
    assert figure.get_by_role("button", name="Head 1").get_attribute("aria-pressed") == "false"
    assert figure.locator(".picture").screenshot() != before
    second.click()
    assert lines_of(figure) == expected_lines(weights_HQK)
    second.click(modifiers=["Shift"])
    assert lines_of(figure) == expected_lines(weights_HQK, head=0)
    page.goto(drawn)
    queries = figure.locator(".piece[data-side=query]")
    queries.nth(1).hover()
    assert lines_of(figure) == expected_lines(weights_HQK, query=1)
    page.mouse.move(1, 1)
    assert lines_of(figure) == expected_lines(weights_HQK)
    queries.nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert lines_of(figure) == expected_lines(weights_HQK, query=2)
    mean = weights_HQK[:, 2].mean(axis=0)
    best = int(mean.argmax())
    said = figure.get_by_role("status").inner_text()
    assert said.startswith(f"3 (3) looks at {['1', '2', '3', '</s>'][best]} {mean[best]:.3f}, ")
    page.keyboard.press("ArrowRight")
    assert all(key == 2 for _, _, key in lines_of(figure))
    assert "is looked at by" in figure.get_by_role("status").inner_text()
    page.keyboard.press("Enter")
    page.mouse.move(1, 1)
    assert all(key == 2 for _, _, key in lines_of(figure))
    page.keyboard.press("Escape")
    assert lines_of(figure) == expected_lines(weights_HQK)


def test_hostile_text_is_shown_as_it_is_and_long_sentences_as_a_heat_map_that_keys_read(page, drawn, translator):
    page.goto(drawn)
    assert page.locator(".figure").nth(1).locator("dd.input").inner_text() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    figure = page.locator(".figure").nth(2)
    canvas = figure.locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    mean_QK = translator.attend(LONG, LONG).maps["encoder"].weights[0].mean(axis=0)
    assert figure.locator(".readout").inner_text() == f"1 (2) looks at 1 (2): {mean_QK[1, 1]:.3f}"
    shades = "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    assert canvas.evaluate(shades) > 10
    choose(figure, "Show", "Table")
    assert figure.locator("tbody tr").count() == figure.locator("tbody tr").nth(0).locator("td").count() == 46
    assert figure.locator("tbody tr").nth(1).locator("td").nth(1).inner_text() == f"{mean_QK[1, 1]:.2f}"
    choose(figure, "Show", "Lines")
    assert figure.locator(".piece").count() == 92
