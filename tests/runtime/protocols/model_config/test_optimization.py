"""How a model uses its GPU: CUDA graphs, priority, the way to wait."""

from dataclasses import replace

from charonia_runtime.core.config import CudaGraphSpec, Optimization
from charonia_runtime.protocols.model_config import complete, parse_text

TEXT = b"""
    name: "m" backend: "tensorrt" max_batch_size: 4
    optimization {
      priority: PRIORITY_MAX
      cuda {
        graphs: true
        busy_wait_events: true
        graph_spec {
          batch_size: 4
          input { key: "IN" value { dim: [ 2, 3 ] } }
          graph_lower_bound { batch_size: 2 input { key: "IN" value { dim: [ 2, 3 ] } } }
        }
        graph_spec { batch_size: 1 }
      }
    }
"""
OPTIMIZATION = Optimization(
    cuda_graphs=True,
    cuda_graph_specs=(CudaGraphSpec(4, {"IN": (2, 3)}, 2), CudaGraphSpec(1)),
    busy_wait_events=True,
    priority=1,
)


def test_graphs_are_read() -> None:
    assert parse_text(TEXT, "config.pbtxt").optimization == OPTIMIZATION


def test_what_is_changed_is_written() -> None:
    plain = parse_text(b'name: "m" backend: "tensorrt"', "config.pbtxt")
    completed = complete(replace(plain, optimization=OPTIMIZATION))
    assert completed.optimization == OPTIMIZATION
    assert completed.document["optimization"]["cuda"]["graph_spec"][0] == {
        "batch_size": 4,
        "input": {"IN": {"dim": ["2", "3"]}},
        "graph_lower_bound": {"batch_size": 2, "input": {"IN": {"dim": ["2", "3"]}}},
    }
    assert completed.document["optimization"]["priority"] == "PRIORITY_MAX"
    assert complete(replace(completed, optimization=Optimization())).optimization == Optimization()
