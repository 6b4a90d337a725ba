"""A complete plug-in: a problem, an hparams set and a model. Load it with --t2t_usr_dir=examples/usr_dir.

Importing the package registers its names, so this file imports every module with a registered name.
"""

from . import bag_of_words, reverse_words, small_set  # noqa: F401
