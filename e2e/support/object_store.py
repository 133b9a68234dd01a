"""MinIO as a pod: the buckets that services copy their models from."""

from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config

from e2e.support.cluster import Cluster
from e2e.support.pods import restricted_pod
from e2e.support.waiting import eventually

KEY_ID, KEY_SECRET = "e2e-key-id", "e2e-key-secret"
BUCKET = "models"
_NAME, _PORT = "store", 9000


class ObjectStore:
    """One bucket. Objects are put from this machine, pods fetch them."""

    def __init__(self, namespace: str) -> None:
        self.endpoint = f"http://{_NAME}.{namespace}.svc:{_PORT}"
        self._namespace = namespace
        self._client: Any = None

    def start(self, cluster: Cluster, image: str) -> None:
        """Make the pod and its Service, and wait for it."""
        pod = restricted_pod(
            _NAME, image, command=["minio", "server", "/tmp/objects", f"--address=:{_PORT}"],
            environment={"MINIO_ROOT_USER": KEY_ID, "MINIO_ROOT_PASSWORD": KEY_SECRET, "HOME": "/tmp"},
        )  # fmt: skip
        pod["spec"]["containers"][0]["readinessProbe"] = {
            "httpGet": {"path": "/minio/health/ready", "port": _PORT}, "periodSeconds": 1,
        }  # fmt: skip
        service = {"selector": pod["metadata"]["labels"], "ports": [{"port": _PORT}]}
        metadata = {"name": _NAME}
        for body in (pod, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}):
            cluster.kubectl.apply(body, "-n", self._namespace)
        cluster.kubectl.wait(f"pod/{_NAME}", "condition=Ready", self._namespace, 180)

    def connect(self, address: str) -> None:
        """Reach the store at `host:port`, and make the bucket."""
        self._client = boto3.client(
            "s3", endpoint_url=f"http://{address}", aws_access_key_id=KEY_ID, aws_secret_access_key=KEY_SECRET,
            region_name="us-east-1", config=Config(proxies={}, retries={"max_attempts": 5}),
        )  # fmt: skip
        # A pod may be Ready a moment before its Service leads to it.
        eventually(self._client.list_buckets, 120, "the store can be reached")
        self._client.create_bucket(Bucket=BUCKET)

    def put(self, objects: Mapping[str, bytes], prefix: str = "") -> None:
        """Upload objects: path below `prefix` → content."""
        for path, content in objects.items():
            self._client.put_object(Bucket=BUCKET, Key=f"{prefix}{path}", Body=content)

    def put_half(self, path: str, content: bytes) -> str:
        """Upload a first part, as an upload that is under way has it. Gives what `finish` takes."""
        upload: str = self._client.create_multipart_upload(Bucket=BUCKET, Key=path)["UploadId"]
        self._client.upload_part(Bucket=BUCKET, Key=path, UploadId=upload, PartNumber=1, Body=content)
        return upload

    def finish(self, path: str, upload: str) -> None:
        """End an upload that has one part."""
        parts = self._client.list_parts(Bucket=BUCKET, Key=path, UploadId=upload)["Parts"]
        listed = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in parts]
        self._client.complete_multipart_upload(
            Bucket=BUCKET, Key=path, UploadId=upload, MultipartUpload={"Parts": listed}
        )

    def close(self) -> None:
        """Let go of the connections."""
        if self._client:
            self._client.close()
