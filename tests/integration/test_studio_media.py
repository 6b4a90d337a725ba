"""Pages on pictures and sounds in a real browser: display, playback and answers.

Slow: nothing quicker runs the scripts of pages.
"""

import re

import numpy as np
import pytest

import t2t
from benchmarks.harness.load import Server
from t2t.cli import trainer
from tests.in_process import call
from tests.integration.conftest import PATIENT, check_for_everybody
from tests.integration.test_inputs import PLUGIN, SMALL

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs that classify pictures and tones, with their data and their problems' plug-in."""
    folder = tmp_path_factory.mktemp("media")
    (folder / "plugin").mkdir()
    # Classes are renamed, since other tests of this process have loaded the plug-in from another folder.
    (folder / "plugin/__init__.py").write_text(re.sub(r"class (\w+To\w+)\(", r"class Shown\1(", PLUGIN))
    model = ["--model=transformer_encoder", "--hparams_set=transformer_tiny", f"--t2t_usr_dir={folder}/plugin"]
    for name, size in (("picture", 24), ("tone", 96)):
        call(
            trainer, *model, "--generate_data", "--worker_cpu=1", "--train_steps=4", f"--data_dir={folder}/data",
            problem=f"shown_{name}_to_class", output_dir=f"{folder}/runs/{name}", hparams=f"{SMALL},batch_size={size}",
        )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def studio(folder):
    flags = [str(folder / "runs"), f"--data_dir={folder}/data", f"--t2t_usr_dir={folder}/plugin"]
    with Server("t2t-insight", PATIENT, *flags) as one:
        yield f"http://127.0.0.1:{one.port}"


def test_pictures_are_shown_and_lead_to_what_the_model_answers(page, studio, folder):
    page.goto(f"{studio}/data?of=picture&split=dev")
    picture = page.locator('[data-example="4"] img')
    picture.wait_for()
    loaded = "async image => { await image.decode(); return [image.naturalWidth, image.naturalHeight]; }"
    assert picture.evaluate(loaded) == [5, 6]
    assert picture.get_attribute("alt") == "inputs of example 4"
    assert "green" in page.locator('[data-example="4"]').inner_text()
    page.locator('[data-example="4"] a').click()
    page.locator(".saliency rect").first.wait_for()
    translator = t2t.load(str(folder / "runs/picture"), t2t_usr_dir=str(folder / "plugin"))
    rows = [row.split("\t") for row in page.locator("table.classes tbody tr").all_inner_texts()]
    assert len(rows) == 3
    assert sum(float(row[1]) for row in rows) == pytest.approx(1, abs=1e-3)
    assert page.locator("dd").all_inner_texts() == ["green", rows[0][0]]
    assert translator.problem.class_labels == ("red", "green", "blue")
    assert page.locator(".saliency rect").count() == 30
    page.get_by_label("Class", exact=True).select_option(rows[1][0])
    page.locator(f'.saliency[aria-label*="{rows[1][0]}"]').wait_for()
    page.get_by_label("Example").fill("5")
    page.get_by_label("Example").press("Enter")
    page.get_by_text("example 5 of 12").wait_for()
    assert "example=5" in page.url


def test_sounds_are_played(page, studio):
    page.goto(f"{studio}/data?of=tone&split=dev")
    sound = page.locator('[data-example="0"] audio')
    sound.wait_for()
    loaded = """audio => new Promise((resolve, reject) => {
      audio.onloadedmetadata = () => resolve(audio.duration);
      audio.onerror = () => reject(new Error(audio.error.message));
      audio.load();
    })"""
    seconds = sound.evaluate(loaded)
    said = page.locator('[data-example="0"] dt').nth(0).inner_text()
    assert f"{seconds:.2f} s" in said
    page.goto(f"{studio}/playground?a=tone&split=dev&example=0")
    page.locator("table.classes").wait_for()
    assert page.locator("audio").count() == 1
    assert page.locator(".saliency").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["data?of=picture", "data?of=tone", "playground?a=picture&split=dev&example=1"])
def test_pages_are_for_everybody(browser, studio, path, scheme):
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    check_for_everybody(page, f"{studio}/{path}", ".saliency rect" if "playground" in path else "[data-example]")


def test_the_rows_of_a_picture_stay_sharp(page, studio):
    """Enlarging does not blend neighbouring pixels."""
    page.goto(f"{studio}/data?of=picture&split=dev")
    picture = page.locator('[data-example="0"] img')
    picture.wait_for()
    read = """async image => {
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: 5, height: 6 });
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      return [...context.getImageData(0, 0, 5, 6).data];
    }"""
    pixels = np.array(picture.evaluate(read)).reshape(6, 5, 4)[..., :3]
    assert pixels[..., 0].mean() > pixels[..., 1:].mean() + 60  # red has 120 more
    assert picture.evaluate("image => getComputedStyle(image).imageRendering") == "pixelated"
