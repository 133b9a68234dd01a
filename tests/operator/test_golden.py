"""Spec in, objects out: the pairs in `golden`. `--update-golden` writes them anew; read the difference."""

import json
from pathlib import Path

import pytest
import yaml

from charonia_operator.pod.template import pod_template
from charonia_operator.resources import children
from charonia_operator.spec.service import InferenceServiceSpec
from tests.support.inference_services import SETTINGS, body_of

CASES = sorted(path.parent for path in (Path(__file__).parent / "golden").glob("*/input.yaml"))


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def rendered(case: Path) -> dict[str, str]:
    service = InferenceServiceSpec.parse(body_of(yaml.safe_load((case / "input.yaml").read_text())))
    objects = children(service, SETTINGS, pod_template(service, SETTINGS))
    return {f"{each['kind']}-{each['metadata']['name']}.yaml": dumped(each) for each in objects}


def dumped(built) -> str:
    return yaml.dump(json.loads(json.dumps(built)), Dumper=Dumper, sort_keys=False, width=120)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case, request):
    built = rendered(case)
    files = {path.name: path for path in case.glob("*.yaml") if path.name != "input.yaml"}
    if request.config.getoption("--update-golden", default=False):
        for name in files.keys() - built.keys():
            files[name].unlink()
        for name, text in built.items():
            (case / name).write_text(text)
        return

    assert {name: path.read_text() for name, path in files.items()} == built


def test_the_deployment_has_the_frozen_template():
    """What is kept for later is what is used now."""
    case = CASES[0]
    built = {name: yaml.safe_load(text) for name, text in rendered(case).items()}
    deployment = next(each for name, each in built.items() if name.startswith("Deployment"))
    revision = next(each for name, each in built.items() if name.startswith("ControllerRevision"))

    assert deployment["spec"]["template"] == revision["data"]["template"]
