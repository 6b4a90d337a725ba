"""Changes of sealed files. This module does not import TensorFlow, as `tests.builders` does."""

import contextlib
import json
from pathlib import Path

from t2t.files.trust import SEAL, sealed


@contextlib.contextmanager
def edited(path):
    """Yields the content of a sealed JSON file; writes and seals it again after the `with` block, with all changes."""
    path = Path(path)
    values = json.loads(path.read_text())
    values.pop(SEAL, None)
    yield values
    path.write_text(json.dumps(sealed(path.name, values)))
