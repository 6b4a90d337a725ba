"""Shared fixtures of the tests of commands: a small trained run and a browser."""

import dataclasses
import random
import shutil
from pathlib import Path

import pytest

from t2t.cli import datagen, trainer

TINY = (
    "num_encoder_layers=1,hidden_size=16,filter_size=32,num_heads=2,batch_size=256,max_length=24,extra_length=4,"
    "learning_rate_schedule=constant,learning_rate=0.01,learning_rate_warmup_steps=5,beam_size=2,"
    "layer_prepostprocess_dropout=0.0"
)
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"train": 300, "dev": 12, "test": 8}


@dataclasses.dataclass(frozen=True)
class TinyRun:
    """A run of forty updates that learns to reverse sequences of digits; read-only."""

    data_dir: Path
    output_dir: Path
    raw_dir: Path
    """Folder of the files `{train,dev,test}.{source,target}`."""
    train_flags: tuple[str, ...]
    """Flags that `t2t-trainer` was run with, except for `--output_dir` and `--train_steps`."""

    def lines(self, split: str) -> list[list[str]]:
        """Returns the lines of both raw files of a split: inputs and references."""
        return [(self.raw_dir / f"{split}.{side}").read_text().splitlines() for side in ("source", "target")]

    @property
    def raw_flags(self) -> list[str]:
        """Flags of the raw files of training and dev."""
        return [flag for flag in self.train_flags if flag.startswith(("--train_source", "--train_target", "--dev_"))]

    @property
    def flags(self) -> list[str]:
        """Flags for a command that needs the run and its data."""
        return [f"--output_dir={self.output_dir}", f"--data_dir={self.data_dir}"]


def write_digits(folder: Path, seed: int = 0) -> list[str]:
    """Writes the raw files; returns the flags that name them."""
    rng = random.Random(seed)
    for split, size in SIZES.items():
        rows = [rng.choices("0123456789", k=rng.randint(1, 9)) for _ in range(size)]
        for side, lines in (("source", rows), ("target", [row[::-1] for row in rows])):
            (folder / f"{split}.{side}").write_text("".join(" ".join(line) + "\n" for line in lines))
    return digits_flags(folder)


def digits_flags(folder: Path) -> list[str]:
    """Returns the flags that name the raw files of a folder."""
    files = [f"--{split}_{side}={folder}/{split}.{side}" for split in SIZES for side in ("source", "target")]
    return [*files, "--problem=text2text_files", "--vocab_kind=token"]


PATIENT = "--request_seconds=1200"
"""Flag of servers: a request may wait for a model as long as it takes to load on a busy machine."""


@pytest.fixture(scope="session")
def tiny_run(once) -> TinyRun:
    """Trains for forty updates through the command line, with a checkpoint every twenty updates."""
    folder = once("tiny_run", _train)
    return TinyRun(folder / "data", folder / "run", folder / "raw", _train_flags(folder))


def _train(folder: Path) -> None:
    (folder / "raw").mkdir()
    write_digits(folder / "raw")
    flags = _train_flags(folder)
    assert datagen.main(["t2t-datagen", *flags[: flags.index("--model=transformer")]]) == 0
    assert trainer.main(["t2t-trainer", *flags, f"--output_dir={folder / 'run'}", "--train_steps=40"]) == 0


def _train_flags(folder: Path) -> tuple[str, ...]:
    return (
        *digits_flags(folder / "raw"), f"--data_dir={folder / 'data'}", "--model=transformer",
        "--hparams_set=transformer_tiny", f"--hparams={TINY}", "--local_eval_frequency=20", "--eval_steps=1",
        "--worker_cpu=1",
    )  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser test")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM)} is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def plain_page(browser):
    """A page whose console may say errors, as browsers do for requests that are refused."""
    page = browser.new_page()
    page.set_default_timeout(180_000)  # machines may be slow
    yield page
    page.close()


def check_for_everybody(page, url, ready, width=390):
    """Checks that axe finds no violations of WCAG 2.2 A and AA, and that nothing is wider than its screen."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page.set_default_timeout(180_000)
    page.goto(url)
    ready(page) if callable(ready) else page.wait_for_selector(ready)
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = axe.Axe().run(page, options={"runOnly": tags, "resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.fixture
def page(browser):
    """A page; fails the test if it sends a request to another machine, or if a script reports an error."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    context.set_default_timeout(180_000)  # machines may be slow
    page = context.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: (wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "request", lambda r: None if r.url.startswith(("file:", "http://127.0.0.1:", "data:")) else wrong.append(r.url)
    )
    yield page
    context.close()
    assert wrong == []
