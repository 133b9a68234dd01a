"""Responses in the order of their requests, for models with `preserve_ordering`."""

from collections import OrderedDict

from charonia_runtime.core.request import InferenceRequest, InferenceResponse


class ResponseOrder:
    """
    Holds a response until all responses of earlier requests were sent, whatever they were.

    Every request that was added must be answered finally, or nothing behind it leaves.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: OrderedDict[int, list[tuple[InferenceRequest, InferenceResponse]]] = OrderedDict()

    def add(self, request: InferenceRequest) -> None:
        """`request` is behind all that were added before; it stays where it is when it is added again."""
        self._held.setdefault(id(request), [])

    def release(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> list[tuple[InferenceRequest, InferenceResponse]]:
        """The responses that may leave now that there is this one; that of a request never added waits for nobody."""
        held = self._held
        if id(request) not in held:
            return [(request, response)]
        held[id(request)].append((request, response))
        released: list[tuple[InferenceRequest, InferenceResponse]] = []
        while held:
            first = next(iter(held))
            answers = held[first]
            released += answers
            if not answers or not answers[-1][1].final:
                answers.clear()
                break
            del held[first]
        return released
