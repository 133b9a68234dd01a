"""
The CUDA runtime, through NVIDIA's own bindings (package cuda-bindings), which are imported when somebody needs them.

    runtime   its functions with types, and errors instead of status codes
    memory    blocks of pinned and of device memory that are used again
    copying   device buffers to the host and back
    regions   memory of other processes, by its IPC handle

Belongs here: what a backend without a framework of its own, and clients' CUDA memory, need of a GPU.
Does not: anything of a framework, a model or a wire. Who imports torch copies with torch.
"""
