"""Pictures of pages: drawn to a temporary folder, or to the documentation where T2T_IMAGES=docs says so."""

import io
import os
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parents[1] / "docs/images"
DRAWS_DOCS = os.environ.get("T2T_IMAGES") == "docs"
MOST_BYTES = 100_000


def save_picture(screenshot, name, folder):
    """Writes a screenshot as a small picture, to `folder` unless the documentation's are drawn; returns its size."""
    picture = Image.open(io.BytesIO(screenshot))
    path = (IMAGES if DRAWS_DOCS else folder) / name
    picture.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < MOST_BYTES
    return picture.size
