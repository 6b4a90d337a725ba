"""Screenshots of pages: written to a temporary folder, or with T2T_IMAGES=docs to the documentation."""

import io
import os
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parents[1] / "docs/images"
DRAWS_DOCS = os.environ.get("T2T_IMAGES") == "docs"
MOST_BYTES = 100_000


def save_picture(screenshot, name, folder):
    """Writes a screenshot as a small image to `folder`, or to the documentation if selected; returns its size."""
    picture = Image.open(io.BytesIO(screenshot))
    path = (IMAGES if DRAWS_DOCS else folder) / name
    picture.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < MOST_BYTES
    return picture.size
