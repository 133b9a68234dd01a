"""
How fast repositories are copied: `charonia sync` against a loop over boto3's transfer manager, on the same server.

    python -m tests.benchmarks.sync_speed [--endpoint URL] [--mebibytes N] [--files N] [--rounds N] [--server PROGRAM]

Prints seconds, their ratio and the peak memory of both, for 200 large objects and for many small ones. `--server` is a
MinIO program to start for the run, by default the one on the PATH; `--endpoint` is a server that runs, with credentials
in AWS_*. Each copy runs in a fresh process and folder; rounds alternate, and the best of each counts.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.support.processes import free_port

BUCKET = "charonia-sync-speed"
LARGE_OBJECTS = 200
PARALLELISM = 8

_REPORT = """
import json, os
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"mebibytes": int(peak) / 1024, "cpu": sum(os.times()[:2])}))
"""
_SYNC = f"""
import sys
from charonia_runtime.syncing import sync
assert sync(["s3://{BUCKET}/" + sys.argv[1], sys.argv[2] + "/models", "--endpoint=" + sys.argv[3], "--parallelism={PARALLELISM}"]) == 0
{_REPORT}
"""
_TRANSFER_MANAGER = f"""
import os, sys, boto3
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.config import Config
client = boto3.client("s3", endpoint_url=sys.argv[3], region_name="us-east-1", config=Config(max_pool_connections={PARALLELISM}))
with create_transfer_manager(client, TransferConfig(max_concurrency={PARALLELISM})) as manager:
    futures = []
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="{BUCKET}", Prefix=sys.argv[1]):
        for entry in page.get("Contents", ()):
            path = sys.argv[2] + "/" + entry["Key"]
            os.makedirs(os.path.dirname(path), exist_ok=True)
            futures.append(manager.download("{BUCKET}", entry["Key"], path))
    for future in futures:
        future.result()
{_REPORT}
"""


@contextmanager
def a_server(program: str) -> Iterator[str]:
    """The URL of a MinIO of our own."""
    port, folder = free_port(), tempfile.mkdtemp()
    os.environ.update(AWS_ACCESS_KEY_ID="AKIDREADER", AWS_SECRET_ACCESS_KEY="the-secret")
    os.environ.update(MINIO_ROOT_USER="AKIDREADER", MINIO_ROOT_PASSWORD="the-secret")
    command = [program, "server", folder, "--address", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def fill(client: Any, mebibytes: int, files: int) -> None:
    """Upload both repositories."""
    size = mebibytes * (1 << 20) // LARGE_OBJECTS
    blob = os.urandom(size)

    def put_large(number: int) -> None:
        key = f"large/m{number % 10}/{number // 10 + 1}/model.bin"
        client.put_object(Bucket=BUCKET, Key=key, Body=number.to_bytes(8, "big") + blob[8:])

    def put_small(number: int) -> None:
        key = f"small/m{number % 100}/1/file{number // 100:04}"
        client.put_object(Bucket=BUCKET, Key=key, Body=number.to_bytes(8, "big") * 64)

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(put_large, range(LARGE_OBJECTS)))
        list(executor.map(put_small, range(files)))


def measure(script: str, prefix: str, endpoint: str) -> tuple[float, float, float]:
    """Seconds, peak MiB, CPU seconds of one copy."""
    folder = tempfile.mkdtemp()
    try:
        start = time.perf_counter()
        command = [sys.executable, "-c", script, prefix, folder, endpoint]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        usage = json.loads(result.stdout.splitlines()[-1])
        return seconds, usage["mebibytes"], usage["cpu"]
    finally:
        shutil.rmtree(folder)


def compare(title: str, prefix: str, endpoint: str, rounds: int) -> None:
    best: dict[str, tuple[float, float, float]] = {}
    for _ in range(rounds):
        for name, script in (("charonia sync", _SYNC), ("transfer manager", _TRANSFER_MANAGER)):
            found = measure(script, prefix, endpoint)
            best[name] = min(best.get(name, found), found)
    print(title)
    for name, (seconds, mebibytes, cpu) in best.items():
        print(f"  {name:18}{seconds:8.1f} s {cpu:8.1f} s CPU {mebibytes:8.0f} MiB")
    print(f"  ratio             {best['transfer manager'][0] / best['charonia sync'][0]:8.2f}")


def main() -> None:
    import boto3

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--server", default="")
    parser.add_argument("--mebibytes", type=int, default=2048)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    program = given.server or shutil.which("minio")
    if not program and not given.endpoint:
        parser.error("there is no minio on the PATH: give --server or --endpoint")
    with a_server(program) if not given.endpoint else _given(given.endpoint) as endpoint:
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        _create_bucket(client)
        fill(client, given.mebibytes, given.files)
        compare(f"{given.mebibytes} MiB in {LARGE_OBJECTS} objects", "large/", endpoint, given.rounds)
        compare(f"{given.files} files of 512 bytes", "small/", endpoint, given.rounds)


@contextmanager
def _given(endpoint: str) -> Iterator[str]:
    yield endpoint


def _create_bucket(client: Any) -> None:
    """Once the server answers."""
    for _ in range(100):
        try:
            client.create_bucket(Bucket=BUCKET)
        except client.exceptions.BucketAlreadyOwnedByYou:
            return
        except Exception:  # noqa: BLE001 - it starts
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("the server does not answer")


if __name__ == "__main__":
    main()
