"""The scripts in a checkout's `bin/` run the checkout's package, even if another version is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOORS = sorted((Path(__file__).resolve().parents[3] / "bin").iterdir())


@pytest.mark.parametrize("door", DOORS, ids=lambda path: path.name)
def test_a_command_of_a_checkout_needs_no_installation(door, tmp_path):
    """Run through a link in another folder, the first also by its path; a fake package reports that it was imported."""
    module = re.search(r"from t2t\.cli\.(\w+) import main", door.read_text(encoding="utf-8"))[1]
    for folder in ("bin", "t2t/cli", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    for package in ("t2t", "t2t/cli"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / f"t2t/cli/{module}.py").write_text(
        "import sys\n\n\ndef main():\n    print(*sys.argv[1:])\n    return 3\n"
    )
    shutil.copy(door, tmp_path / "bin")
    (tmp_path / "elsewhere/link").symlink_to(tmp_path / "bin" / door.name)
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    by_path = [[sys.executable, f"../bin/{door.name}"], [f"../bin/{door.name}"]] if door == DOORS[0] else []
    for command in (*by_path, ["./link"]):
        done = subprocess.run(
            [*command, "--a=b"],
            cwd=tmp_path / "elsewhere",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (3, "--a=b\n"), done.stderr
