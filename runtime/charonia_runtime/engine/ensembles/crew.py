"""What all requests of one loaded ensemble share: the copies of its models, the shapes of its tensors, its limits."""

from collections.abc import Collection, Mapping, Sequence

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.core.reshaping import backend_shape, client_shape
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.ensembles.graph import EnsembleGraph, Step
from charonia_runtime.engine.ensembles.limits import StepLimit
from charonia_runtime.engine.ensembles.propagation import Value
from charonia_runtime.engine.ensembles.shapes import adapted
from charonia_runtime.engine.execution.answers import AnswerFinisher, Labels
from charonia_runtime.engine.execution.copies import ModelCopy


class Member:
    """The model of one step, and what its requests need again and again."""

    __slots__ = ("_dims", "_step", "batches", "copy", "decoupled", "limit", "outputs")

    def __init__(
        self, step: Step, copy: ModelCopy, limit: StepLimit | None, *, on_device: Collection[str] = ()
    ) -> None:
        """`on_device`: the ensemble's tensors that every reader takes from a GPU's memory."""
        config = copy.config
        self._step = step
        self.copy = copy
        self.batches = config.batches
        self.decoupled = config.decoupled
        self.limit = limit
        self.outputs = [RequestedOutput(inner, on_device=outer in on_device) for inner, outer in step.outputs.items()]
        self._dims = {spec.name: spec.dims for spec in config.inputs}

    def outputs_for(self, regions: Collection[str]) -> list[RequestedOutput]:
        """`outputs`, where a client has `regions` of the ensemble's tensors written to its own memory on a GPU."""
        if not regions:
            return self.outputs
        outer = self._step.outputs
        return [
            RequestedOutput(output.name, on_device=output.on_device or outer[output.name] in regions)
            for output in self.outputs
        ]

    def input(self, name: str, value: Value) -> Tensor | None:
        """The tensor as this model's input `name`; None where there is none."""
        if value.tensor is None:
            return None
        return adapted(value.tensor, name, self._dims[name], from_batch=value.batched, to_batch=self.batches)


class Crew:
    """One loaded ensemble, as its requests see it."""

    __slots__ = (
        "_outputs", "_reshaped_inputs", "batches", "decoupled", "finisher", "graph", "inputs", "labels", "members",
        "most_waiting_bytes", "name", "statistics", "version",
    )  # fmt: skip

    def __init__(
        self,
        config: ModelConfig,
        ensemble: Ensemble,
        version: int,
        copies: Sequence[ModelCopy],
        labels: Labels,
        *,
        most_waiting_bytes: int,
    ) -> None:
        """
        `copies` are the models of the steps, `labels` those of the ensemble's own files.

        A decoupled step that sends more while as many bytes wait for a limit fails its request.
        """
        self.most_waiting_bytes = most_waiting_bytes
        most = ensemble.max_inflight_requests
        self.name = config.name
        self.version = version
        self.batches = config.batches
        self.decoupled = config.decoupled
        self.graph = EnsembleGraph(config, ensemble)
        on_device = {
            tensor for step in self.graph.steps for tensor in step.outputs.values() if self._stays(tensor, copies)
        }
        self.members = tuple(
            Member(step, copy, StepLimit(most) if most else None, on_device=on_device)
            for step, copy in zip(self.graph.steps, copies, strict=True)
        )
        self.inputs = tuple(spec.name for spec in config.inputs)
        self.labels = {**self._inherited_labels(config), **labels}
        self.finisher = AnswerFinisher(config, self.labels)
        self.statistics = ModelStatistics()
        self._outputs = {spec.name: spec for spec in config.outputs}
        self._reshaped_inputs = {spec.name: spec for spec in config.inputs if spec.reshape is not None}

    def input(self, name: str, tensor: Tensor | None) -> Value:
        """A client's tensor as the steps see it: after the ensemble's `reshape` of its input `name`."""
        spec = self._reshaped_inputs.get(name)
        if spec is not None and tensor is not None:
            shape = backend_shape(spec, tensor.shape, batches=self.batches)
            tensor = Tensor(name, tensor.datatype, shape, tensor.data)
        return Value(tensor, batched=self.batches, given=True)

    def output(self, name: str, value: Value) -> Tensor | None:
        """
        The tensor as the ensemble's output `name`; None where no step made it.

        Raises InternalError when it has not as many elements as the `reshape` of the output asks for.
        """
        if value.tensor is None:
            return None
        spec = self._outputs[name]
        tensor = adapted(value.tensor, name, spec.backend_dims, from_batch=value.batched, to_batch=self.batches)
        if spec.reshape is None:
            return tensor
        return Tensor(name, tensor.datatype, client_shape(spec, tensor.shape, batches=self.batches), tensor.data)

    def _stays(self, tensor: str, copies: Sequence[ModelCopy]) -> bool:
        """Whether nobody needs `tensor` on the host: only steps read it, and all of them take it from a GPU."""
        readers = self.graph.readers(tensor)
        return (
            bool(readers)
            and not self.graph.is_output(tensor)
            and all(copies[step.index].takes_device_tensors for step in readers)
        )

    def _inherited_labels(self, config: ModelConfig) -> Mapping[str, Sequence[str]]:
        """Outputs have the labels of the models that make them."""
        found = {}
        for spec in config.outputs:
            step = self.graph.producer(spec.name)
            if step is None:
                continue
            for inner, outer in step.outputs.items():
                labels = self.members[step.index].copy.labels.get(inner)
                if outer == spec.name and labels:
                    found[outer] = labels
        return found
