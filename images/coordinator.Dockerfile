# syntax=docker/dockerfile:1.12
# The coordinator: no torch, no ray, no transformers. Build from the checkout:
#   docker build -f images/coordinator.Dockerfile -t ssd-coordinator:0.1.0 .

# The series that constraints.txt was tested with.
ARG PYTHON_VERSION=3.11.13

FROM python:${PYTHON_VERSION}-slim-bookworm AS build
RUN python -m venv /opt/ssd
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY ssd ssd
COPY coordinator coordinator
COPY drafter_service/__init__.py drafter_service/__init__.py
COPY verifier_service/__init__.py verifier_service/__init__.py
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/ssd/bin/pip install -c constraints.txt .

FROM python:${PYTHON_VERSION}-slim-bookworm
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ssd-coordinator" \
      org.opencontainers.image.description="What clients of ssd-service talk to" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 ssd && useradd --uid 10001 --gid 10001 --no-create-home ssd
COPY --from=build /opt/ssd /opt/ssd
ENV PATH=/opt/ssd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GOMP_SPINCOUNT=30000 \
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
    GRPC_EXPERIMENTS=-event_engine_client,-event_engine_listener
USER 10001:10001
WORKDIR /tmp
CMD ["python", "-m", "coordinator"]
