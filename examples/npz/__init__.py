"""A plug-in with a format of its own: the weights of a run as an archive of numpy, written and read back as a run.

t2t-exporter --t2t_usr_dir=examples/npz --output_dir=run --export_dir=archive --format=npz
t2t-import --t2t_usr_dir=examples/npz --from=npz --model_dir=archive --output_dir=again
"""

from . import exporter, importer  # noqa: F401
