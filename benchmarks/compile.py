"""Compiles a program for a device that need not be there: python compile.py FILE DEVICE [REPLICAS]

FILE is serialized HLO, DEVICE 'h100' or a topology of TPUs, e.g. 'v3:4x4'. Prints JSON: bytes of
arguments, outputs, temporaries and code on a device, and of outputs that take the place of
arguments; operations and bytes moved, by XLA's analysis; what the replicas exchange. Needs JAX with
the device's compiler: 'jax[cuda12]' or 'jax[tpu]'. Without a GPU XLA measures no kernels: it takes
default ones, and what cuDNN's algorithms need for themselves is not in the figures.
"""

import json
import os
import re
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"  # of the process itself
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # none is used

import jax
import numpy as np
from exchanges import exchanges
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
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
}
platform_name: "CUDA" runtime_version { major: 12 minor: 9 } dnn_version_info { major: 9 minor: 8 }
"""
SIZES = {
    "arguments": "argument_size",
    "outputs": "output_size",
    "in_place": "alias_size",
    "temporaries": "temp_size",
    "code": "generated_code_size",
}
# XLA's bug: it writes copies, as of a variable that is assigned, in a form that it cannot read.
COPY = re.compile(r"= mhlo\.copy (%\S+) : (tensor<\S+>)")


def main(path: str, name: str, replicas: str = "1") -> None:
    with open(path, "rb") as file:
        computation = xla_client.XlaComputation(file.read())
    print(json.dumps(compiled(computation, name, int(replicas))))


def compiled(computation, name: str, replicas: int) -> dict:
    """Compiles for the first `replicas` devices of a topology; {'error': why} if that is
    impossible.
    """
    jax.devices()  # registers the plugins
    if name == "h100":
        topology = topologies.get_topology_desc(
            "1x1x1", "cuda", topology="1x1x1", target_config=H100
        )
    else:
        topology = topologies.get_topology_desc(name, "tpu")
    devices = topology.devices[:replicas]
    options = xla_client.CompileOptions()
    options.num_replicas = replicas
    options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.array([[device.id] for device in devices])
    )
    text = _jax.mlir.xla_computation_to_mlir_module(computation)
    text = COPY.sub(r'= "mhlo.reshape"(\1) : (\2) -> \2', text)
    start = time.process_time()
    try:
        with mlir.make_ir_context():
            program = devices[0].client.compile(
                ir.Module.parse(text), xla_client.DeviceList(tuple(devices)), options
            )
    except jax.errors.JaxRuntimeError as error:
        return {"error": str(error)[:2000]}
    sizes = program.get_compiled_memory_stats()
    found = {name: getattr(sizes, f"{field}_in_bytes") for name, field in SIZES.items()}
    module = program.hlo_modules()[0].to_string()
    cost = program.cost_analysis()
    found |= {"flop": cost.get("flops", 0.0), "bytes": cost.get("bytes accessed", 0.0)}
    return {**found, "exchanges": exchanges(module), "seconds": time.process_time() - start}


if __name__ == "__main__":
    main(*sys.argv[1:])
