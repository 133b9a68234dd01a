"""A model's own batching: where its file is found, what is refused, and that its faults stay its own."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, UnavailableError, UnsupportedError
from charonia_runtime.core.scheduling import Direct, DynamicBatching
from charonia_runtime.core.strategy import STRATEGY_PARAMETER
from charonia_runtime.engine.execution.batch_strategies import find_strategy, load_strategy
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.options import parse_serve
from charonia_runtime.protocols.model_config import complete
from tests.support.backends import Gate, a_folder, echo, fake_backend
from tests.support.configs import a_config, a_tensor
from tests.support.requests import RecordingSink, a_request

PAIRS = """
class BatchStrategy:
    def __init__(self, config):
        self.most = int(config["parameters"]["MOST"]["string_value"])

    def initialize(self):
        self.total = 0

    def include(self, request):
        self.total += request.inputs["IN"].as_numpy().sum()
        return self.total <= self.most
"""
FIELDS = {
    "inputs": (a_tensor("IN", DataType.INT32, 1),),
    "outputs": (a_tensor("OUT", DataType.INT32, 1),),
    "max_batch_size": 8,
    "scheduling": DynamicBatching(),
    "instance_groups": (InstanceGroup("m_0", InstanceKind.CPU, 1),),
    "parameters": {"MOST": "10"},
}


@pytest.fixture
def files(tmp_path):
    return replace(a_folder(tmp_path, "m"), backend_directory=tmp_path / "backends")


def config(**changes):
    """As it is when its version is loaded, the document too."""
    return complete(a_config("m", **{**FIELDS, **changes}))


def put(folder, text=PAIRS, name="batchstrategy.py"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def error_of(call):
    with pytest.raises(InferenceError) as raised:
        call()
    return raised.value.reason


def test_where_the_file_is_looked_for(files):
    model = config(backend="fake")
    assert find_strategy(model, files) is None
    for folder in (files.backend_directory / "fake", files.directory, files.version_directory):
        path = put(folder)
        assert find_strategy(model, files) == path
    named = put(files.directory / "strategies", name="pairs.py")
    model = replace(model, parameters={STRATEGY_PARAMETER: "strategies/pairs.py"})
    assert find_strategy(model, files) == named


def test_only_dynamic_batching_asks(files):
    put(files.directory)
    assert find_strategy(config(scheduling=Direct()), files) is None
    named = config(scheduling=Direct(), parameters={STRATEGY_PARAMETER: "batchstrategy.py"})
    assert "needs 'dynamic_batching'" in error_of(lambda: find_strategy(named, files))


def test_a_library_is_refused(files):
    library = put(files.directory, name="batchstrategy.so")
    assert error_of(lambda: find_strategy(config(), files)) == (
        f"Unsupported: model 'm' has the batching library '{library}', and shared libraries are not supported: put a "
        "batchstrategy.py with a class BatchStrategy beside it"
    )
    put(files.directory)
    assert find_strategy(config(), files) is not None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none.py", "Not found: Batching library path not found: "),
        ("../m/batchstrategy.py", "Invalid argument: Batching library path escapes model repository."),
        ("/etc/batchstrategy.py", "Invalid argument: Batching library path escapes model repository."),
    ],
)
def test_paths_that_are_refused(files, path, reason):
    put(files.directory)
    assert error_of(lambda: find_strategy(config(parameters={STRATEGY_PARAMETER: path}), files)).startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = (", "Internal: the batching strategy '{}' of model 'm' failed to load: SyntaxError: "),
        ("", "Internal: the batching strategy '{}' of model 'm' failed to load: AttributeError: "),
        (
            PAIRS.replace("MOST", "LEAST"),
            "Internal: the batching strategy '{}' of model 'm' failed to load: KeyError: ",
        ),
        (PAIRS.replace("include", "inclued"), "Invalid argument: the class BatchStrategy of '{}' must have a method"),
    ],
)
def test_a_file_that_is_wrong_fails_the_load(files, text, reason):
    path = put(files.directory, text)
    assert error_of(lambda: load_strategy(config(), files, allowed=True)).startswith(reason.format(path))


def test_faults_are_logged_once_and_end_the_batch(files, caplog):
    put(files.directory, PAIRS.replace("self.total = 0", "pass"))
    strategy = load_strategy(config(), files, allowed=True)
    strategy.initialize()
    requests = [a_request("m", {"IN": np.full((1, 1), 1, np.int32)})] * 2
    assert [strategy.include(request) for request in requests] == [False, False]
    strategy.finalize()
    (record,) = caplog.records
    assert record.getMessage() == "the batching strategy of model 'm' failed"


def told_of_its_end(path):
    """The strategy's text, with the file that it makes when it is closed."""
    return f"{PAIRS}\n    def close(self):\n        open({str(path)!r}, 'w').close()\n"


async def test_a_model_is_served_in_the_batches_of_its_strategy(tmp_path):
    files, closed = a_folder(tmp_path, "m"), tmp_path / "closed"
    put(files.directory, told_of_its_end(closed))
    batches = []

    def execute(batch):
        batches.append([int(request.inputs["IN"].as_numpy()[0, 0]) for request in batch.requests])
        echo(batch)

    gate = Gate(execute)
    model = await Model.load(files, config(), fake_backend(gate), allow_strategies=True)
    sinks = [RecordingSink() for _ in range(6)]
    for value, sink in zip([0, 4, 5, 6, 4, 1], sinks, strict=True):
        model.submit(a_request("m", {"IN": np.full((1, 1), value, np.int32)}, sink=sink))
        if not value:
            await asyncio.to_thread(gate.entered.acquire)
    gate.open(4)
    for sink in sinks:
        await sink.response()
    assert batches == [[0], [4, 5], [6, 4], [1]]
    assert not closed.exists()
    await model.close()
    assert closed.exists()


async def test_a_strategy_is_closed_where_the_model_does_not_load(tmp_path):
    files, closed = a_folder(tmp_path, "m"), tmp_path / "closed"
    put(files.directory, told_of_its_end(closed))
    with pytest.raises(UnavailableError, match="no weights"):
        await Model.load(
            files,
            config(),
            fake_backend(failures={"load": UnavailableError("no weights")}),
            allow_strategies=True,
        )
    assert closed.exists()


async def test_a_strategy_runs_only_where_a_flag_allows_it(tmp_path):
    files, run = a_folder(tmp_path, "m"), tmp_path / "run"
    put(files.directory, f"open({str(run)!r}, 'w').close()\n{PAIRS}")

    with pytest.raises(UnsupportedError, match="--allow-batch-strategies=true"):
        await Model.load(files, config(), fake_backend(Gate(echo)))
    assert not run.exists()


def test_the_flag_that_allows_strategies():
    assert not parse_serve(["--model-repository=x"], {}).engine.allow_batch_strategies
    assert parse_serve(["--model-repository=x", "--allow-batch-strategies=1"], {}).engine.allow_batch_strategies
