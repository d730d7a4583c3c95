<?php

declare(strict_types=1);

namespace App\Messenger;

use Duly\Client;
use Psr\Log\LoggerInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/**
 * `duly://orders` is the queue `orders`. With autoconfiguration a service in `src/` is all that Symfony needs.
 *
 * Options of the transport: `url` and `prefix` of the server, `lease`, `timeout` (the longest run), `prefetch`,
 * `concurrency` (how many messages of a batch handler may wait for their acknowledgement), `wait` (not shorter than
 * `--sleep`), `max_lost_runs`. Symfony adds `transport_name`.
 */
final class DulyTransportFactory implements TransportFactoryInterface
{
    public function __construct(private ?LoggerInterface $logger = null)
    {
    }

    /** @param array<string, mixed> $options */
    public function createTransport(
        #[\SensitiveParameter] string $dsn,
        array $options,
        SerializerInterface $serializer,
    ): TransportInterface {
        $options += ['queue' => substr($dsn, strlen('duly://')) ?: 'messages'];
        $client = new Client($options['url'] ?? null, $options['prefix'] ?? null);
        return new DulyTransport($client, $serializer, $options, $this->logger);
    }

    /** @param array<string, mixed> $options */
    public function supports(#[\SensitiveParameter] string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'duly://');
    }
}
