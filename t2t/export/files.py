"""What lies beside the files of an export."""

from pathlib import Path

from t2t.files.paths import local_path

REPORT, README = "t2t_export.json", "README.md"


def is_export(folder: Path | str) -> bool:
    """Returns whether a folder is what `t2t-exporter` has made."""
    return (local_path(folder) / REPORT).is_file()
