"""`runtime/docs/mistakes.md`: every mistake is made, and the server says of it what the page says."""

import json
import re
from pathlib import Path

import pytest

from charonia_runtime import file_kinds
from charonia_runtime.engine.lifecycle.folder_advice import advise_on_repository
from tests.support import usual_mistakes
from tests.support.processes import ServerProcess

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "runtime/docs/mistakes.md").read_text()
_ROW = re.compile(r"^\| (?P<mistake>.+?) \| (?P<triton>.+?) \| (?P<ours>.+) \|$", re.MULTILINE)
_RECORD = re.compile(r'^[EW]\d+ [^]]+\] (?P<text>".*")$')
LEFT_OUT = "[…]"
pytestmark = pytest.mark.timeout(300)  # some forty models load, each in a process


def rows(heading: str) -> dict[str, tuple[str, str]]:
    """The rows of one table: mistake → the other two cells."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = {row["mistake"]: (row["triton"], row["ours"]) for row in _ROW.finditer(section)}
    return {mistake: cells for mistake, cells in found.items() if mistake not in {"mistake", "---"}}


def is_said(cell: str, lines: list[str]) -> bool:
    """Whether a line has the parts of a cell, in their order."""
    parts = [re.escape(part.strip()) for part in cell.strip("`").split(LEFT_OUT)]
    return any(re.search(".*".join(parts), line) for line in lines)


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    """The model of each mistake."""
    return {mistake: f"mistake_{index:02}" for index, mistake in enumerate(usual_mistakes.MODELS)}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, names: dict[str, str]) -> dict[str, list[str]]:
    """What the log says of each model, and what clients hear of each request."""
    folder = tmp_path_factory.mktemp("mistakes")
    repository = folder / "models"
    usual_mistakes.write(repository / "m", usual_mistakes.GOOD)
    usual_mistakes.write(repository / "sound", usual_mistakes.GOOD)
    for mistake, files in usual_mistakes.MODELS.items():
        usual_mistakes.write(repository / names[mistake], files)
    heard: dict[str, list[str]] = {}
    log = folder / "log"
    with ServerProcess(
        repository, log, "--exit-on-error=false", "--strict-readiness=false", "--log-requests=errors", wait_seconds=240
    ) as server:
        good = usual_mistakes.REQUESTS["a model that is not there"][2]
        for name in names.values():
            server.request("POST", f"/v2/models/{name}/infer", (good or "").encode())
        for mistake, (method, path, body) in usual_mistakes.REQUESTS.items():
            status, answer = server.request(method, path, None if body is None else body.encode())
            try:
                text = json.loads(answer)["error"]
            except ValueError:
                text = answer.decode()
            heard[mistake] = [f"{status} {text}"]
    records = [json.loads(record["text"]) for line in server.log.splitlines() if (record := _RECORD.match(line))]
    records = [" ".join(record.replace(str(repository), "models").split()) for record in records]
    heard["requests"] = [record for record in records if record.startswith("HTTP ")]
    for mistake, name in names.items():
        heard[mistake] = [record.replace(name, "m") for record in records if re.search(rf"{name}(?!\d)", record)]
    return heard


@pytest.mark.parametrize("heading", ["Models that do not load", "Models that fail while they run"])
def test_the_log_says_what_the_page_says(answers: dict[str, list[str]], heading: str) -> None:
    for mistake, (_, ours) in rows(heading).items():
        assert is_said(ours, answers[mistake]), f"{mistake}: {ours}\n{answers[mistake]}"


def test_clients_hear_what_the_page_says(answers: dict[str, list[str]]) -> None:
    for mistake, (told, _) in rows("Requests").items():
        status, _, text = told.partition(" ")
        assert [f"{status} {text.strip('`')}"] == [" ".join(line.split()) for line in answers[mistake]], mistake


def test_the_log_of_requests_adds_what_the_page_says(answers: dict[str, list[str]]) -> None:
    for mistake, (told, advice) in rows("Requests").items():
        said = f" error: {told.partition(' ')[2].strip('`')} ({advice.replace('`', '')})"
        assert any(said in line for line in answers["requests"]), f"{mistake}: {said}"


def test_repositories_are_told_as_the_page_says(tmp_path: Path) -> None:
    for index, (mistake, (_, ours)) in enumerate(rows("Repositories").items()):
        repository = tmp_path / str(index)
        usual_mistakes.write(repository, usual_mistakes.REPOSITORIES[mistake])
        (advice,) = advise_on_repository(repository)
        assert advice.replace(str(repository), "models") == ours.strip("`"), mistake


def test_every_mistake_has_its_row() -> None:
    models = {**rows("Models that do not load"), **rows("Models that fail while they run")}
    assert models.keys() == usual_mistakes.MODELS.keys()
    assert rows("Requests").keys() == usual_mistakes.REQUESTS.keys()
    assert rows("Repositories").keys() == usual_mistakes.REPOSITORIES.keys()


def test_messages_name_pages_and_sections_that_there_are() -> None:
    page = (ROOT / file_kinds.PAGE).read_text()
    sections = {line.removeprefix("## ").lower() for line in page.splitlines() if line.startswith("## ")}
    source = Path(file_kinds.__file__).read_text()

    assert set(re.findall(r"\{PAGE\}#(\w+)", source)) <= sections
