"""Service accounts as pods find them: rights of their own, and a folder with a token that can be exchanged."""

import shutil
from pathlib import Path
from typing import Any

from tests.support.api_server import ApiServer, RefusedError
from tests.support.operator_process import eventually

HOME = "operators"
_GROUP = "rbac.authorization.k8s.io"


class ServiceAccount:
    """Named after the namespace in which it has `rules`, and nothing elsewhere."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path, rules: list[dict[str, Any]]) -> None:
        self.folder = folder
        self._server = server
        self._namespace = namespace
        self._accounts = f"/api/v1/namespaces/{HOME}/serviceaccounts"
        self._secrets = f"/api/v1/namespaces/{HOME}/secrets"
        self._tokens: dict[str, str] = {}
        folder.mkdir()
        shutil.copy(server.certificate, folder / "ca.crt")
        try:
            server.request("POST", "/api/v1/namespaces", {"metadata": {"name": HOME}})
        except RefusedError as error:
            assert error.status == 409
        server.request("POST", self._accounts, {"metadata": {"name": namespace}})
        self.grant(rules)
        subject = {"kind": "ServiceAccount", "namespace": HOME, "name": namespace}
        role = {"apiGroup": _GROUP, "kind": "Role", "name": "charonia"}
        server.apply({**self._head("RoleBinding"), "roleRef": role, "subjects": [subject]})
        self.rotate("first")

    def grant(self, rules: list[dict[str, Any]]) -> None:
        """These rights from now on."""
        self._server.apply({**self._head("Role"), "rules": rules})

    def rotate(self, name: str) -> None:
        """A new token lies in the folder. It lives until `revoke(name)`."""
        secret = self._server.request("POST", self._secrets, {"metadata": {"name": f"{self._namespace}-{name}"}})
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret["metadata"]["name"]}
        request = {"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}}
        granted = self._server.request("POST", f"{self._accounts}/{self._namespace}/token", request)
        fresh = self.folder / "fresh"
        self._tokens[name] = granted["status"]["token"]
        fresh.write_text(self._tokens[name])
        fresh.replace(self.folder / "token")

    def revoke(self, name: str) -> None:
        """Return when the API server knows the token of that name no more, which it remembers for some seconds."""
        self._server.request("DELETE", f"{self._secrets}/{self._namespace}-{name}")
        eventually(lambda: not self._is_known(self._tokens[name]))

    def _is_known(self, token: str) -> bool:
        try:
            self._server.request("GET", f"/api/v1/namespaces/{self._namespace}/pods", token=token)
        except RefusedError as error:
            return error.status != 401
        return True

    def _head(self, kind: str) -> dict[str, Any]:
        metadata = {"name": "charonia", "namespace": self._namespace}
        return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata}
