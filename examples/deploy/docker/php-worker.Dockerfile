# A worker in PHP, from a checkout of duly. The application is in the folder `shop`:
#
#     docker build -f examples/deploy/docker/php-worker.Dockerfile -t shop-worker .
FROM php:8.3-cli-bookworm AS build
RUN apt-get update \
    && apt-get install --no-install-recommends -y clang libclang-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=rust:1.95-slim-bookworm /usr/local/cargo /usr/local/cargo
COPY --from=rust:1.95-slim-bookworm /usr/local/rustup /usr/local/rustup
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH
COPY . /duly
WORKDIR /duly/php-binding/ext
RUN phpize && ./configure && make && make install

FROM php:8.3-cli-bookworm
COPY --from=build /usr/local/lib/php/extensions /usr/local/lib/php/extensions
COPY --from=build /duly/php-binding /opt/duly
# pcntl: signals. Without it a worker cannot stop cleanly.
RUN docker-php-ext-install pcntl && docker-php-ext-enable duly
COPY shop /shop
WORKDIR /shop
USER 33:33
# In the exec form: a shell in front of it would keep SIGTERM to itself.
CMD ["php", "/opt/duly/bin/duly-worker", "bootstrap.php", "--processes", "4"]
