# Subgraft for one machine: docker build --tag subgraft . && docker run --rm -v "$PWD:/work" subgraft fit MODEL --pairs a.en a.fr --out fitted
# The images of a Kubernetes cluster are made by k8s/Dockerfile.
FROM python:3.11.14-slim-bookworm
RUN useradd --create-home --uid 1000 subgraft && mkdir /work && chown subgraft /work
COPY pyproject.toml constraints.txt README.md /build/
COPY platform /build/platform
RUN pip install --no-cache-dir --constraint /build/constraints.txt '/build[ctranslate2,adapters]'
USER 1000
WORKDIR /work
ENTRYPOINT ["subgraft"]
