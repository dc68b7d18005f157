# syntax=docker/dockerfile:1.12
# Drafter and verifier, as Ray nodes; also the Jobs that place them and fetch models. Build from
# the checkout:
#   docker build -f images/worker.Dockerfile -t ssd-worker:0.1.0 .
# For CPUs alone, gigabytes smaller, with PyTorch's own index of CPU builds:
#   ... --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu

# The series that constraints.txt was tested with.
ARG PYTHON_VERSION=3.11.13

FROM python:${PYTHON_VERSION}-slim-bookworm AS build
ARG TORCH_INDEX=https://pypi.org/simple
RUN python -m venv /opt/ssd
# Where the code will lie: the embedded pairs are found beside it.
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
# torch first and alone: no later package may pull in another build of it.
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/ssd/bin/pip install --index-url "${TORCH_INDEX}" "$(grep '^torch==' constraints.txt)"
COPY ssd ssd
COPY coordinator/__init__.py coordinator/__init__.py
COPY drafter_service drafter_service
COPY verifier_service verifier_service
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/ssd/bin/pip install -c constraints.txt -e '.[engine,cluster]' \
    && /opt/ssd/bin/python -m compileall -q ssd drafter_service verifier_service
COPY models models

FROM python:${PYTHON_VERSION}-slim-bookworm
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ssd-worker" \
      org.opencontainers.image.description="Drafter and verifier of ssd-service on Ray" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
# Both torch and Ray ask for the name of the user they run as.
RUN groupadd --gid 10001 ssd && useradd --uid 10001 --gid 10001 --no-create-home ssd
COPY --from=build /opt/ssd /opt/ssd
COPY --from=build /app /app
ENV PATH=/opt/ssd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GOMP_SPINCOUNT=30000 \
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
    GRPC_EXPERIMENTS=-event_engine_client,-event_engine_listener
USER 10001:10001
WORKDIR /tmp
# No command: the operator of Ray adds `ray start`, and the Jobs bring their own.
