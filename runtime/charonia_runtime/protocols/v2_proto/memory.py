"""Messages about shared-memory regions that clients register (section 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

from tritonclient.grpc import service_pb2

from charonia_runtime.core.server import CudaRegion, SystemRegion
from charonia_runtime.protocols.v2_proto import parse


@dataclass(frozen=True, slots=True)
class CudaRegistration:
    """A CUDA region to register; `raw_handle` is the client's `cudaIpcMemHandle_t`."""

    name: str
    raw_handle: bytes
    device_id: int
    byte_size: int


def decode_region_name(data: bytes) -> str:
    """The region of a status or unregister request of either kind; empty for all of them."""
    name: str = parse(service_pb2.SystemSharedMemoryStatusRequest, data).name
    return name


def decode_system_registration(data: bytes) -> SystemRegion:
    message = parse(service_pb2.SystemSharedMemoryRegisterRequest, data)
    return SystemRegion(message.name, message.key, message.offset, message.byte_size)


def decode_cuda_registration(data: bytes) -> CudaRegistration:
    message = parse(service_pb2.CudaSharedMemoryRegisterRequest, data)
    return CudaRegistration(message.name, message.raw_handle, message.device_id, message.byte_size)


def encode_system_regions(regions: Sequence[SystemRegion]) -> bytes:
    response = service_pb2.SystemSharedMemoryStatusResponse
    message = response(
        regions={
            region.name: response.RegionStatus(
                name=region.name, key=region.key, offset=region.offset, byte_size=region.byte_size
            )
            for region in regions
        }
    )
    return bytes(message.SerializeToString())


def encode_cuda_regions(regions: Sequence[CudaRegion]) -> bytes:
    response = service_pb2.CudaSharedMemoryStatusResponse
    message = response(
        regions={
            region.name: response.RegionStatus(name=region.name, device_id=region.device_id, byte_size=region.byte_size)
            for region in regions
        }
    )
    return bytes(message.SerializeToString())
