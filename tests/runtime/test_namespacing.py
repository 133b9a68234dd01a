"""A whole server with repositories that have models of the same name, as its clients see it."""

import json
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from tests.support.processes import ServerProcess
from tests.support.repositories import write_ensemble_of, write_model

AMBIGUOUS = (
    "There are {} identifiers of model 'm' in global map, model namespace must be provided to resolve ambiguity."
)
REQUEST = {"inputs": [{"name": "INPUT", "datatype": "INT32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}


@pytest.fixture
def repositories(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    for repository in (a, b):
        write_model(repository, "m")
        write_ensemble_of(repository, f"ens_{repository.name}", "m")
    return a, b


def infer(server, name):
    status, body = server.request("POST", f"/v2/models/{name}/infer", json.dumps(REQUEST).encode())
    return status, json.loads(body).get("error")


def successes(server):
    """The labels of the models that answered."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    family = "nv_inference_request_success"
    return sorted(line.removeprefix(family)[:-2] for line in lines if line.startswith(family) and line.endswith(" 1"))


@pytest.mark.parametrize("flags", [[], ["--frontend-processes=2"]], ids=["alone", "with frontend processes"])
def test_clients_reach_models_of_one_name_through_ensembles(repositories, tmp_path, flags):
    a, b = repositories
    more = [f"--model-repository={b}", "--model-namespacing=true", "--model-control-mode=explicit", "--load-model=*"]
    with ServerProcess(a, tmp_path / "log", *more, *flags) as server:
        assert infer(server, "m") == (400, AMBIGUOUS.format(2))
        assert server.get("/v2/models/m/config")[0] == 400
        assert server.get("/v2/models/m/ready")[0] == 400
        assert server.get("/v2/health/ready")[0] == 200
        assert infer(server, "ens_a") == (200, None)
        assert successes(server) == [
            f'{{model="ens_a",namespace="{a}",version="1"}}',
            f'{{model="m",namespace="{a}",version="1"}}',
        ]

        given = tritonclient.grpc.InferInput("INPUT", [1, 4], "INT32")
        given.set_data_from_numpy(np.arange(4, dtype=np.int32).reshape(1, 4))
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            with pytest.raises(InferenceServerException) as caught:
                client.infer("m", [given])
            assert (caught.value.status(), caught.value.message()) == (
                "StatusCode.INVALID_ARGUMENT", AMBIGUOUS.format(2),
            )  # fmt: skip
            assert client.infer("ens_b", [given]).as_numpy("OUTPUT").tolist() == [[0, 1, 2, 3]]
            counted = client.get_inference_statistics().model_stats
            assert [(one.name, one.inference_stats.success.count) for one in counted] == [
                ("ens_a", 1), ("m", 1), ("ens_b", 1), ("m", 1),
            ]  # fmt: skip

            client.unload_model("m")
            with pytest.raises(InferenceServerException, match="Identifier of model 'm' is not found in global map"):
                client.infer("m", [given])
            client.load_model("ens_b")
            assert client.infer("m", [given]).as_numpy("OUTPUT").tolist() == [[0, 1, 2, 3]]
