"""A complete plug-in: an example of each kind of thing that has a name. Load it with --t2t_usr_dir=examples/usr_dir.

Importing the package registers its names, so this file imports every module with a registered name.
"""

from . import (  # noqa: F401
    bag_of_words,
    best_of_samples,
    capitals,
    colours,
    cooldown,
    focal,
    hashed_words,
    lion,
    reverse_words,
    small_set,
)  # fmt: skip
