"""Every manifest that is shown to people is accepted by the API server, and read by the operator."""

import re
from pathlib import Path

import pytest
import yaml

from charonia_operator.naming import API_VERSION
from charonia_operator.pod.template import pod_template
from charonia_operator.resources import children
from charonia_operator.spec.service import InferenceServiceSpec
from tests.support.inference_services import SETTINGS, body_of

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {
    ("v1", "Service"): "/api/v1/namespaces/default/services",
    ("v1", "PersistentVolumeClaim"): "/api/v1/namespaces/default/persistentvolumeclaims",
    ("apps/v1", "ControllerRevision"): "/apis/apps/v1/namespaces/default/controllerrevisions",
    ("apps/v1", "Deployment"): "/apis/apps/v1/namespaces/default/deployments",
    ("policy/v1", "PodDisruptionBudget"): "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    ("networking.k8s.io/v1", "Ingress"): "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
    ("networking.k8s.io/v1", "NetworkPolicy"): "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
}


def shown():
    texts = [path.read_text() for path in sorted((ROOT / "charts/charonia/examples").glob("*.yaml"))]
    texts += [path.read_text() for path in sorted((ROOT / "tests/operator/golden").glob("*/input.yaml"))]
    for page in (ROOT / "README.md", ROOT / "operator/README.md"):
        texts += re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    return [each for each in documents if isinstance(each, dict) and "kind" in each]


MANIFESTS = [each for each in shown() if each["kind"] == "InferenceService"]
OTHERS = [each for each in shown() if each["kind"] != "InferenceService"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: each["metadata"]["name"])
def test_a_manifest_and_its_children(api_server, manifest):
    """Strictly: an unknown field is a mistake."""
    strict = "?dryRun=All&fieldValidation=Strict"
    path = f"/apis/{API_VERSION}/namespaces/default/inferenceservices{strict}"
    manifest = {**manifest, "metadata": {"name": manifest["metadata"]["name"]}}
    defaulted = api_server.request("POST", path, manifest)
    service = InferenceServiceSpec.parse(body_of(defaulted))

    for child in children(service, SETTINGS, pod_template(service, SETTINGS)):
        known = KNOWN.get((child["apiVersion"], child["kind"]))
        assert known or "gateway" in child["apiVersion"]
        if known:
            api_server.request(
                "POST", known + strict, {**child, "metadata": {**child["metadata"], "namespace": "default"}}
            )


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: each["metadata"]["name"])
def test_defaults_of_the_api_server_change_nothing(api_server, manifest):
    """The pods are the same whether the API server has filled in the defaults or not."""
    path = f"/apis/{API_VERSION}/namespaces/default/inferenceservices?dryRun=All"
    bare = {**manifest, "metadata": {"name": manifest["metadata"]["name"]}}
    defaulted = api_server.request("POST", path, bare)

    one, other = InferenceServiceSpec.parse(body_of(bare)), InferenceServiceSpec.parse(body_of(defaulted))

    assert one.spec == other.spec
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("manifest", OTHERS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_what_is_shown_beside_services(api_server, manifest):
    """Buckets to try things with, service accounts."""
    version = manifest["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    path = f"{root}/namespaces/default/{manifest['kind'].lower()}s?dryRun=All&fieldValidation=Strict"

    api_server.request("POST", path, manifest)
