# php-fpm with duly, from a checkout of duly:
#
#     docker build -f examples/deploy/docker/php-fpm.Dockerfile -t shop-fpm .
FROM php:8.3-fpm-bookworm AS build
RUN apt-get update \
    && apt-get install --no-install-recommends -y clang libclang-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=rust:1.95-slim-bookworm /usr/local/cargo /usr/local/cargo
COPY --from=rust:1.95-slim-bookworm /usr/local/rustup /usr/local/rustup
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH
COPY . /duly
WORKDIR /duly/php-binding/ext
RUN phpize && ./configure && make && make install

FROM php:8.3-fpm-bookworm
COPY --from=build /usr/local/lib/php/extensions /usr/local/lib/php/extensions
# The classes of duly; with Composer: duly/duly.
COPY --from=build /duly/php-binding/php /opt/duly/php
RUN docker-php-ext-enable duly
# php-fpm hides the environment from its children, so the server's address is a setting of PHP.
COPY examples/deploy/docker/duly.ini /usr/local/etc/php/conf.d/90-duly.ini
