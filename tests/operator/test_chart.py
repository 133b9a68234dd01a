"""The chart: its values' schema, what it renders, and that it carries the definition itself."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from charonia_operator.settings import Settings
from tests.support.api_server import find_programs
from tests.support.inference_services import CRD

CHART = Path(__file__).resolve().parents[2] / "charts/charonia"


def test_the_chart_carries_the_definition():
    assert (CHART / "definition/inferenceservice.yaml").read_bytes() == CRD.read_bytes()


def test_versions_agree():
    from charonia_operator import __version__

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["version"] == chart["appVersion"] == __version__


def test_every_value_is_in_the_schema():
    def compare(values, schema, path):
        assert schema["additionalProperties"] is False, path
        assert values.keys() == schema["properties"].keys() - {"global"}, path
        for key, value in values.items():
            part = schema["properties"][key]
            if isinstance(value, dict) and part.get("properties"):
                compare(value, part, f"{path}.{key}")

    compare(
        yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text()), ""
    )


@pytest.fixture(scope="module")
def helm():
    programs = find_programs()
    program = shutil.which("helm") or (programs and programs / "helm")
    if not program or not os.access(program, os.X_OK):
        pytest.skip("no helm: put it on PATH or into KUBEBUILDER_ASSETS")

    def template(*arguments, release="demo"):
        command = [program, "template", release, CHART, "--namespace=system", "--kube-version=1.34.0", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise ValueError(result.stderr)
        return {
            (each["kind"], each["metadata"].get("namespace", "")): each
            for each in yaml.safe_load_all(result.stdout)
            if each
        }

    return template


def test_a_cluster_wide_install(helm):
    rendered = helm()

    assert {kind for kind, namespace in rendered if not namespace} == {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
    }
    assert {kind for kind, namespace in rendered if namespace} == {
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "Deployment",
    }
    assert rendered["ClusterRole", ""]["rules"] == yaml.safe_load((CHART / "rules.yaml").read_text())


def test_an_install_for_namespaces(helm):
    """No cluster-wide right at all."""
    rendered = helm("--set=watch.namespaces={a,b}", "--set=definition.install=false")

    assert {kind for kind, _ in rendered} == {"ServiceAccount", "Role", "RoleBinding", "Deployment"}
    assert {("Role", "a"), ("RoleBinding", "a"), ("Role", "b"), ("RoleBinding", "b")} < rendered.keys()
    command = rendered["Deployment", "system"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert Settings.parse(command[1:]).namespaces == ("a", "b")


def test_two_pods_of_which_one_leads(helm):
    """Both name the same Lease, which the Role of the release's namespace grants and no other."""
    rendered = helm()
    deployment, role = rendered["Deployment", "system"], rendered["Role", "system"]
    command = deployment["spec"]["template"]["spec"]["containers"][0]["command"]

    assert deployment["spec"]["replicas"] == 2
    assert Settings.parse(command[1:]).lease == "system/demo"
    assert [rule["verbs"] for rule in role["rules"]] == [["create"], ["get", "patch"]]
    assert {rule["resources"][0] for rule in role["rules"]} == {"leases"}
    assert role["rules"][1]["resourceNames"] == ["demo"]
    assert helm("--set=replicas=1")["Deployment", "system"]["spec"]["replicas"] == 1


def test_defaults_of_every_pod_reach_the_operator(helm):
    deployment = helm(
        "--set=defaults.runAsUser=0",
        "--set=podSecurityContext=null",
        "--set=defaults.imagePullSecrets={a,b}",
        '--set-json=defaults.tolerations=[{"key":"gpu","operator":"Exists"}]',
        '--set-json=defaults.resources={"limits":{"memory":"4Gi"}}',
    )["Deployment", "system"]
    pod = deployment["spec"]["template"]["spec"]

    settings = Settings.parse(pod["containers"][0]["command"][1:])

    assert "securityContext" not in pod
    assert (settings.run_as_user, settings.image_pull_secrets) == (0, ("a", "b"))
    assert settings.tolerations == ({"key": "gpu", "operator": "Exists"},)
    assert settings.resources == {"limits": {"memory": "4Gi"}}


def test_the_command_line_is_the_operators(helm):
    arguments = ["--set=defaults.runtimeImage=a:1", "--set=limits.workers=3", "--set=defaults.syncImage=b:1"]
    deployment = helm(*arguments)["Deployment", "system"]

    command = deployment["spec"]["template"]["spec"]["containers"][0]["command"]

    settings = Settings.parse(command[1:])
    assert command[0] == "charonia-operator"
    assert (settings.runtime_image, settings.workers, settings.copying_image) == ("a:1", 3, "b:1")
    assert settings.resync_seconds == Settings().resync_seconds
    assert settings.runtime_gpu_image == Settings().runtime_gpu_image


def test_the_pod_is_of_the_restricted_profile(helm):
    pod = helm()["Deployment", "system"]["spec"]["template"]["spec"]
    container = pod["containers"][0]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_definition_is_upgraded_and_survives_an_uninstall(helm):
    """Helm never upgrades what lies in crds/; a template without the annotation would take every service with it."""
    definition = helm()["CustomResourceDefinition", ""]

    assert definition == yaml.safe_load(CRD.read_text())
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "CustomResourceDefinition" not in {kind for kind, _ in helm("--set=definition.install=false")}


@pytest.mark.parametrize(
    "value",
    [
        "watch.namespace=a",
        "watch.namespaces={Not A Name}",
        "logLevel=LOUD",
        "limits.workers=0",
        "defaults.runAsUser=-1",
    ],
)
def test_values_that_are_refused(helm, value):
    with pytest.raises(ValueError, match="don't meet the specifications"):
        helm(f"--set={value}")


def test_the_objects_are_accepted(helm, api_server):
    groups = {
        "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    }
    values = [
        "--set=priorityClassName=high",
        "--set=podLabels.a=b",
        "--set=podAnnotations.a=b",
        "--set=imagePullSecrets[0].name=a",
    ]
    without = "--set=definition.install=false"  # it is there already
    for (kind, _), body in helm(*values, without, "--namespace=default").items():
        api_server.request("POST", f"{groups[kind]}?dryRun=All&fieldValidation=Strict", body)
