# A worker in PHP on Alpine (musl), from a checkout of duly. The application is in the folder `shop`:
#
#     docker build -f examples/deploy/docker/alpine.Dockerfile -t shop-worker .
FROM php:8.3-cli-alpine AS build
# Alpine's own Rust links with the musl of the system, as a module that PHP loads must.
RUN apk add --no-cache $PHPIZE_DEPS cargo clang-dev
COPY . /duly
WORKDIR /duly/php-binding/ext
RUN phpize && ./configure && make && make install

FROM php:8.3-cli-alpine
RUN apk add --no-cache libgcc
COPY --from=build /usr/local/lib/php/extensions /usr/local/lib/php/extensions
COPY --from=build /duly/php-binding /opt/duly
RUN docker-php-ext-install pcntl && docker-php-ext-enable duly
COPY shop /shop
WORKDIR /shop
USER 82:82
CMD ["php", "/opt/duly/bin/duly-worker", "bootstrap.php", "--processes", "4"]
