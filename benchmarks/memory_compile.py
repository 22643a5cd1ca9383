"""Compiles a program of `benchmarks.memory` for a device that need not be there: python memory_compile.py FILE DEVICE

Prints the bytes of its arguments, outputs and temporaries, by XLA's analysis. Tried: jax 0.10.2 with 'jax[cuda12]' for
'h100'; topologies of TPUs were not. Without a device XLA measures no kernels: it takes default ones, and what
cuDNN's algorithms need for themselves is not in the figures.
"""

import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"  # of the process itself
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import _jax, xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies

# An H100 with 80 GB, as XLA describes a GPU; NVIDIA's figures.
H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 } core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  device_memory_size: 84929347584 memory_bandwidth: 3352320000000 l2_cache_size: 52428800
  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_block_limit: 65536 registers_per_core_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448 shared_memory_per_core: 233472
}
platform_name: "CUDA" runtime_version { major: 12 minor: 9 } dnn_version_info { major: 9 minor: 8 }
"""


def main(path: str, name: str) -> None:
    jax.devices()  # registers the plugins
    if name == "h100":
        topology = topologies.get_topology_desc("1x1x1", "cuda", topology="1x1x1", target_config=H100)
    else:
        topology = topologies.get_topology_desc(name, "tpu")
    device = topology.devices[0]
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id]]))
    with open(path, "rb") as file:
        text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(file.read()))
    with mlir.make_ir_context():
        program = device.client.compile(ir.Module.parse(text), xla_client.DeviceList((device,)), options)
    found = program.get_compiled_memory_stats()
    names = {"arguments": "argument", "outputs": "output", "temporaries": "temp"}
    print(json.dumps({name: getattr(found, f"{field}_size_in_bytes") for name, field in names.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
