# On the CPU:         docker build -t cpc_tf .                      docker run -v $PWD/runs:/cpc_tf/runs cpc_tf
# On NVIDIA's GPUs:   docker build -t cpc_tf --build-arg GPU=1 .    docker run --gpus all -v $PWD/runs:/cpc_tf/runs cpc_tf
# docs/gpu.md says more.
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /cpc_tf
COPY Makefile setup.sh requirements*.txt ./
# Where an image is built there is no driver, so nothing is tried on a GPU.
ARG GPU=0
ENV PIP_NO_CACHE_DIR=1
RUN make setup GPU=$GPU
COPY . .
RUN make native
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
CMD ["make", "demo"]
