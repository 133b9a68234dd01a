"""The guide: its table of reasons is the code's, its links lead somewhere, every example is in it."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from charonia_operator import __version__, diagnosis
from charonia_operator.reasons import TROUBLES, Reason, remedy_of, table
from charonia_operator.settings import Settings
from charonia_runtime.storage import failures

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "operator/README.md"
PACKAGE = ROOT / "operator/charonia_operator"
WELL = {
    Reason.SERVING, Reason.AVAILABLE, Reason.ALL_READY, Reason.SYNCED, Reason.NOT_COPIED, Reason.ACCEPTED,
    Reason.INGRESS_CREATED, Reason.UP_TO_DATE, Reason.PROGRESSING, Reason.SUSPENDED, Reason.SCALED_TO_ZERO,
    Reason.CREATING, Reason.ROLLING_UPDATE, Reason.SCALING, Reason.NO_PODS, Reason.NO_READY_PODS, Reason.SCHEDULING,
    Reason.SYNCING, Reason.DOWNLOADING, Reason.INSTALLING, Reason.STARTING, Reason.LOADING_MODELS, Reason.LOADING,
}  # fmt: skip
"""Nobody needs to do anything about these."""


def test_the_table_is_the_codes():
    """`python -m charonia_operator.reasons` prints it."""
    assert f"\n{table()}\n" in GUIDE.read_text()


def test_every_trouble_is_explained():
    assert TROUBLES.keys() == set(Reason) - WELL
    for explanation in TROUBLES.values():
        assert explanation.meaning.endswith(".")
        assert explanation.remedy.endswith(".")
    assert remedy_of("Evicted") == remedy_of(Reason.SERVING) == ""


def test_every_reason_is_given_by_some_code():
    """And none is written out in a string, where this table would not know of it."""
    used, strings = set(), set()
    for path in PACKAGE.rglob("*.py"):
        if path.name == "reasons.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
                used.add(Reason[node.attr])
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"Condition", "Problem"}:
                strings |= {each.value for each in node.args[-2:-1] if isinstance(each, ast.Constant)}

    assert used == set(Reason)
    assert strings <= {"True", "False", "Unknown"}


def test_every_cause_of_a_failed_copy_has_a_reason():
    causes = {each.cause for each in vars(failures).values() if isinstance(each, type) and hasattr(each, "cause")}

    assert causes - diagnosis._OF_THE_REPOSITORY.keys() == {"Failed", "Stopped"}
    assert diagnosis._OF_THE_REPOSITORY.keys() <= causes


def links(page):
    found = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    return [page.parent / link for link in found]


@pytest.mark.parametrize("page", [GUIDE, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert links(page)
    assert [link for link in links(page) if not link.exists()] == []


def test_every_example_is_in_the_guide():
    examples = {path.name for path in (ROOT / "charts/charonia/examples").glob("*.yaml")}

    assert examples - {path.name for path in links(GUIDE)} == {"bucket.yaml"}


def quick_start():
    """The commands that README shows, in order."""
    blocks = re.findall(r"^```sh\n(docker build.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return blocks[0].splitlines()


def test_the_quick_start_loads_the_images_that_it_builds_and_the_chart_asks_for():
    built = [
        words[words.index("-t") + 1] for words in map(str.split, quick_start()) if words[:2] == ["docker", "build"]
    ]
    loaded = next(line for line in quick_start() if line.startswith("kind load")).split()[3:]
    values = yaml.safe_load((ROOT / "charts/charonia/values.yaml").read_text())

    assert built == loaded == [Settings().runtime_image, f"{values['image']['repository']}:{__version__}"]


def test_the_quick_start_names_files_that_exist():
    words = [word.rpartition("=")[2].lstrip("@") for line in quick_start() for word in line.split()]
    paths = [word for word in words if word.startswith(("charts/", "runtime/"))]

    assert len(paths) >= 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_bucket_gets_every_file_of_the_example():
    """And the service is one of the folder above."""
    line = next(line for line in quick_start() if "configmap" in line)
    folders = [ROOT / word.partition("=")[2] for word in line.split() if word.startswith("--from-file=")]
    documents = yaml.safe_load_all((ROOT / "charts/charonia/examples/bucket.yaml").read_text())
    job = next(each for each in documents if each["kind"] == "Job")["spec"]["template"]["spec"]["containers"][0]
    mounts = {mount["subPath"]: mount["mountPath"] for mount in job["volumeMounts"]}
    minimal = yaml.safe_load((ROOT / "charts/charonia/examples/minimal.yaml").read_text())

    files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
    assert mounts == {file.name: f"/digits/{file.relative_to(folders[0])}" for file in files}
    assert f"{minimal['spec']['modelRepository']['uri'].replace('s3:/', 'it')}digits/" in job["command"][-1]


def test_the_readme_shows_the_smallest_manifest():
    assert (ROOT / "charts/charonia/examples/minimal.yaml").read_text().partition("\n")[2] in (
        ROOT / "README.md"
    ).read_text()
