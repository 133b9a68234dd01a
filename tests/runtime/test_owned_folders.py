"""Temporary folders, and what is left of those whose processes were killed."""

import subprocess
import sys
from pathlib import Path

from charonia_runtime.owned_folders import OwnedFolder, remove_abandoned

SCRIPT = """
import sys
from charonia_runtime.owned_folders import OwnedFolder
folder = OwnedFolder("kind-", sys.argv[1])
(folder.path / "content").write_text("x")
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_a_folder_goes_when_it_is_removed(tmp_path: Path) -> None:
    folder = OwnedFolder("kind-", str(tmp_path))
    (folder.path / "content").mkdir()
    folder.remove()
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        remove_abandoned("kind-", str(tmp_path))
        assert (left / "content").exists()  # its process runs
        process.kill()
        process.wait()
        assert (left / "content").exists()
        others = tmp_path / "kind-of-another"
        others.mkdir()
        folder = OwnedFolder("kind-", str(tmp_path))
        assert sorted(tmp_path.iterdir()) == sorted([others, folder.path])
        folder.remove()
