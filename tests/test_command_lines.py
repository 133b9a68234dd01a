"""Every command line that the operator renders is read by the parser of the command that it names."""

from pathlib import Path

import pytest
import yaml

from charonia_operator.pod.template import pod_template
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.flags import Flags, Group
from charonia_runtime.options import serve_flags
from charonia_runtime.storage.location import parse_location
from charonia_runtime.syncing import SyncOptions
from tests.support.inference_services import SETTINGS, body_of

CASES = sorted((Path(__file__).parent / "operator/golden").glob("*/input.yaml"))


def commands(case: Path) -> list[list[str]]:
    service = InferenceServiceSpec.parse(body_of(yaml.safe_load(case.read_text())))
    pod = pod_template(service, SETTINGS)["spec"]
    return [each["command"] for each in [*pod.get("initContainers", []), *pod["containers"]] if "command" in each]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.parent.name)
def test_servers(case):
    for program, *arguments in commands(case):
        if program == "tritonserver":
            parsed = serve_flags().parse(arguments)
            assert parsed.get(EngineOptions).model_repositories


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.parent.name)
def test_copies(case):
    for program, *arguments in commands(case):
        if program == "charonia":
            assert arguments[0] == "sync"
            parsed = Flags([Group("Options", SyncOptions)]).parse(arguments[1:], positional=True)
            uri, target = parsed.positions
            assert parse_location(uri).bucket
            assert target.startswith("/")


def test_the_cases_render_both():
    programs = {command[0] for case in CASES for command in commands(case)}

    assert {"tritonserver", "charonia"} <= programs
