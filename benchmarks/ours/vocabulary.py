"""Only learns a vocabulary, as `t2t-datagen` does: `vocabulary FILE SIZE FLAGS`, where FLAGS name the text files."""

import random
import sys
from pathlib import Path

from t2t.problems.base import Source
from t2t.problems.text_files import Text2TextFiles
from t2t.specs import TARGETS


def main():
    """Writes the vocabulary of the files named by the flags."""
    path, size, *flags = sys.argv[1:]
    files = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    problem = Text2TextFiles(vocab_size=int(size), **files)
    encoders = problem.build_encoders(Source(Path(path).parent, random.Random(0)))
    Path(path).write_bytes(encoders[TARGETS].to_bytes())


if __name__ == "__main__":
    main()
