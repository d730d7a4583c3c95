# A worker in Python, from a checkout of duly. The application is in the folder `shop`:
#
#     docker build -f examples/deploy/docker/python-worker.Dockerfile -t shop-worker .
FROM python:3.13-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --no-install-recommends -y gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=rust:1.95-slim-bookworm /usr/local/cargo /usr/local/cargo
COPY --from=rust:1.95-slim-bookworm /usr/local/rustup /usr/local/rustup
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH
COPY . /duly
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /duly

FROM python:3.13-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && useradd --system --uid 10001 worker
COPY shop /app/shop
WORKDIR /app
USER 10001
# In the exec form: a shell in front of it would keep SIGTERM to itself.
CMD ["duly", "worker", "shop.tasks:app", "--processes", "4"]
