# On the CPU:         docker build -t cpc_tf .
#                     mkdir -p runs && docker run --user $(id -u):$(id -g) -v $PWD/runs:/cpc_tf/runs cpc_tf
# On NVIDIA's GPUs:   docker build -t cpc_tf --build-arg GPU=1 .    and --gpus all behind `docker run`
# Another command:    docker run --user $(id -u):$(id -g) -v $PWD:/data -w /data cpc_tf cpc-tf --version
# docs/scale.md says more, also how to pin the image that it begins with.
ARG BASE=python:3.11-slim
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /cpc_tf
COPY Makefile setup.sh pyproject.toml README.md LICENSE ./
COPY locks locks
# Where an image is built there is no driver, so nothing is tried on a GPU.
ARG GPU=0
ENV PIP_NO_CACHE_DIR=1
RUN make setup GPU=$GPU
COPY . .
RUN .venv/bin/python -m pip install --no-deps --no-build-isolation --editable .
# `cpc-tf` and its Python, from any folder.
ENV PATH=/cpc_tf/.venv/bin:$PATH
# Not root. `docker run --user $(id -u):$(id -g)` makes the files in the mounted runs yours, so any user may write the home.
ENV HOME=/home/cpc_tf
RUN useradd --uid 1000 --create-home --home-dir $HOME cpc_tf && make native && mkdir -p runs && chmod -R a+rwX $HOME runs
USER cpc_tf
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
CMD ["make", "demo"]
