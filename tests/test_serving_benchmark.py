"""The parts of `benchmarks/serving` that can be wrong without anybody seeing it: requests, tables, pictures."""

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import onnxruntime
import pytest
from tritonclient.grpc.service_pb2 import ModelInferRequest

from tests.benchmarks.serving import figures, networks, plots, report
from tests.benchmarks.serving.peer import load_peer, peer_names
from tests.benchmarks.serving.workload import NETWORKS, ROWS, Wire, grpc_message, http_request


def a_figure(peer: str, rate: float, *, row: str = "identity-http", c: int = 8, others: float = 0.0) -> figures.Figure:
    return figures.Figure(row, peer, 0, c, rate, 0.5, 1.0, 0, 40.0, others)


def test_the_hand_written_message_is_a_request() -> None:
    request = ModelInferRequest.FromString(grpc_message(NETWORKS["identity"]))
    (tensor,) = request.inputs
    assert (request.model_name, tensor.name, list(tensor.shape)) == ("identity", "INPUT0", [1, 16])
    assert list(request.raw_input_contents) == [NETWORKS["identity"].tensor()]


@pytest.mark.parametrize("wire", [Wire.V2_JSON, Wire.RAW])
def test_an_answer_reads_back(wire: Wire) -> None:
    network = NETWORKS["identity"]
    request = http_request(network, wire)
    body = b'{"outputs":[{"data":[1.5,2]}]}' if wire is Wire.V2_JSON else network.tensor()
    assert request.read({}, body) == ([1.5, 2] if wire is Wire.V2_JSON else network.values())


def test_every_peer_says_how_it_takes_every_row() -> None:
    assert "charonia" in peer_names()
    for peer in map(load_peer, peer_names()):
        assert {peer.wire(row) for row in ROWS.values()} <= {None, *Wire}


def test_the_networks_run(tmp_path: Path) -> None:
    networks.write_all(tmp_path)
    for name in ("mlp", "resnet50"):
        network = NETWORKS[name]
        session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx", providers=["CPUExecutionProvider"])
        (answer,) = session.run(None, {"INPUT0": np.ones((2, *network.shape), np.float32)})
        assert answer.shape == (2, *network.output_shape)
        assert np.isfinite(answer).all()


def test_cells_are_medians_with_their_ratio_to_triton() -> None:
    records = [a_figure("charonia", rate) for rate in (100, 300, 200)] + [a_figure("triton", 100)]
    table = report.markdown([*records, figures.Limit("identity-http", 1000.0)])
    assert "| Charonia |  |  | 200 (2.00x) | 0.50 / 1.00 |  |  | 40 µs |" in table
    assert "bare onnxruntime in a loop: 1,000 a second" in table


def test_noisy_figures_give_way_to_quiet_ones_and_are_marked_without() -> None:
    cells = report.cells_of(
        [a_figure("triton", 100), a_figure("triton", 900, others=1.0), a_figure("mosec", 5, others=1.0)]
    )
    assert report.rate_of(cells["identity-http", "triton", 8]) == 100
    assert "~5.0" in report.markdown([a_figure("mosec", 5, others=1.0)])


def test_records_survive_the_results_file(tmp_path: Path) -> None:
    records: list[figures.Record] = [
        a_figure("charonia", 1.0), figures.Start("identity-http", "triton", 1, 0.5, 3, 2),
        figures.Limit("mlp-http", 9.0), figures.Failure("mlp-http", "mosec", 0, "no\nport"),
    ]  # fmt: skip
    path = tmp_path / "results"
    path.write_text("".join(figures.line_of(record) + "\n" for record in records))
    assert figures.read(path) == records


def test_the_fastest_bar_is_the_longest(tmp_path: Path) -> None:
    cells = report.cells_of([a_figure("charonia", 300), a_figure("triton", 100)])
    (path,) = plots.draw(cells, tmp_path)
    bars = [bar for bar in ET.parse(path).iter("{http://www.w3.org/2000/svg}rect") if bar.get("x")]
    widths = [int(bar.get("width", 0)) for bar in bars]
    assert widths == [max(widths), pytest.approx(max(widths) / 3, abs=1)]
