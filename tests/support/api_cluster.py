"""What tests ask of an API server, seen from one namespace."""

import time

from charonia_operator.naming import API_VERSION

WRITES = {"create", "update", "patch", "delete", "deletecollection"}


class NamespaceView:
    """The API server, seen from one namespace."""

    def __init__(self, server, namespace):
        self.server = server
        self.namespace = namespace

    def path(self, plural, name="", group="apps/v1"):
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def service(self, name="simple"):
        return self.server.request("GET", self.path("inferenceservices", name, API_VERSION))

    def apply(self, name="simple", **spec):
        spec = {"modelRepository": {"uri": "s3://bucket/models"}, **spec}
        metadata = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": API_VERSION, "kind": "InferenceService", "metadata": metadata, "spec": spec}
        return self.server.apply(body)

    def merge(self, path, body):
        return self.server.request("PATCH", path, body, "application/merge-patch+json")

    def get(self, plural, name="simple", group="apps/v1"):
        return self.server.request("GET", self.path(plural, name, group))

    def names(self, plural, group="apps/v1"):
        return [each["metadata"]["name"] for each in self.server.request("GET", self.path(plural, "", group))["items"]]

    def delete(self, plural, name="simple", group="apps/v1"):
        return self.server.request("DELETE", self.path(plural, name, group))

    def condition(self, kind, name="simple"):
        conditions = self.service(name).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def is_ready(self, name="simple"):
        service = self.service(name)
        seen = service.get("status", {}).get("observedGeneration") == service["metadata"]["generation"]
        return seen and self.condition("Ready", name).get("status") == "True"

    def writes(self, since=0):
        """Those of the operator, status and events left out."""
        done = self.server.audited()[since:]
        return [each for each in done if each[0] in WRITES]

    def moment(self):
        return len(self.server.audited())

    def quiet(self, seconds=2.0):
        """Wait until the operator has written nothing for so long."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            time.sleep(0.1)
            now = len(self.writes())
            if now != last:
                last, since = now, time.monotonic()
