"""The two kinds of model files, read and opened into a session."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from charonia_runtime.backends.tensorflow.settings import Settings
from charonia_runtime.backends.tensorflow.signature import Signature, of_graph_def, of_signature_def
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError

SAVED_MODEL = "tensorflow_savedmodel"
GRAPH_DEF = "tensorflow_graphdef"
DEFAULT_NAMES = {SAVED_MODEL: "model.savedmodel", GRAPH_DEF: "model.graphdef"}
_DEFAULT_SIGNATURE = "serving_default"
_OF_THE_LIBRARY = frozenset({"__saved_model_init_op", "__saved_model_train_op"})


class ModelSource(Protocol):
    """A model file that was read: what it says of itself, and how its graph comes into a session."""

    signature: Signature

    def open(self, session: Any) -> None:
        """Put the graph into the session, which must be empty, and give its variables their values. May raise."""


class SavedModel:
    """A folder that TensorFlow wrote: one graph of those in it, one signature of that graph."""

    def __init__(self, path: Path, settings: Settings, config: ModelConfig) -> None:
        """Raises whatever the library does; InvalidArgumentError when it lacks the tag or the signature."""
        from tensorflow.python.saved_model import loader_impl

        self._loader = loader_impl.SavedModelLoader(str(path))
        graphs = loader_impl.parse_saved_model(str(path)).meta_graphs
        graph = _graph_with(graphs, settings.tag)
        if graph is None:
            raise InvalidArgumentError(f"unable to load model '{config.name}', expected '{settings.tag}' tag")
        self._tags = list(graph.meta_info_def.tags)
        self.signature = of_signature_def(_signature_of(graph, settings.signature, config.name))

    def open(self, session: Any) -> None:
        with session.graph.as_default():
            self._loader.load(session, self._tags)


class GraphDefinition:
    """A file with one frozen graph."""

    def __init__(self, path: Path, tensorflow: Any, config: ModelConfig) -> None:
        """Raises whatever the library does; InvalidArgumentError when it holds no graph."""
        self._tensorflow = tensorflow
        self._definition = tensorflow.compat.v1.GraphDef.FromString(path.read_bytes())
        if not self._definition.node:
            raise InvalidArgumentError(f"model {config.name} has an empty network")
        self.signature = of_graph_def(self._definition)

    def open(self, session: Any) -> None:
        with session.graph.as_default():
            self._tensorflow.import_graph_def(self._definition, name="")


def read_model(tensorflow: Any, path: Path, settings: Settings, config: ModelConfig) -> ModelSource:
    """The file at `path`, as the platform says. Raises whatever the library does, and InvalidArgumentError."""
    if config.platform == GRAPH_DEF:
        return GraphDefinition(path, tensorflow, config)
    return SavedModel(path, settings, config)


def _graph_with(graphs: Sequence[Any], tag: str) -> Any:
    """The graph that has this tag and as few others as may be."""
    tagged = [graph for graph in graphs if tag in graph.meta_info_def.tags]
    return min(tagged, key=lambda graph: len(graph.meta_info_def.tags), default=None)


def _signature_of(graph: Any, wanted: str, model: str) -> Any:
    """The one that is wanted, else the default one, else the first that the library did not make for itself."""
    names = [name for name in sorted(graph.signature_def) if name not in _OF_THE_LIBRARY]
    if not wanted and _DEFAULT_SIGNATURE not in names and names:
        return graph.signature_def[names[0]]
    name = wanted or _DEFAULT_SIGNATURE
    if name not in graph.signature_def:
        raise InvalidArgumentError(f"unable to load model '{model}', expected '{name}' signature")
    return graph.signature_def[name]
