<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Client;
use Duly\Queue;
use think\App;

/**
 * The queues of an application, as `config/duly.php` describes them.
 *
 * Its own methods, and those of the default queue: `duly()->push(...)`.
 *
 * @mixin Queue
 */
final class Duly
{
    private ?Client $client = null;
    private Transactions $transactions;

    public function __construct(private App $app)
    {
        $this->transactions = $app->make(Transactions::class);
    }

    /** @param list<mixed>|array<string, mixed> $arguments */
    public function __call(string $method, array $arguments): mixed
    {
        return $this->queue()->{$method}(...$arguments);
    }

    public function client(): Client
    {
        return $this->client ??= self::clientOf($this->app->config->get('duly', []));
    }

    /** The queue of this name; without one that of the setting `queue`. */
    public function queue(?string $name = null): Queue
    {
        return $this->client()->queue($name ?? $this->app->config->get('duly.queue', 'default'));
    }

    /**
     * Runs it in a transaction of the database, as `Db::transaction` does. What it gives to `afterCommit` is called
     * when that is committed, and not at all when it is rolled back.
     *
     * @template T
     * @param callable(): T $run
     * @param ?string $connection of `config/database.php`. Default: the default one
     *
     * @return T
     */
    public function transaction(callable $run, ?string $connection = null): mixed
    {
        return $this->transactions->run($run, $connection);
    }

    /**
     * Calls it when the transaction that `transaction` has begun is committed; without one at once.
     *
     * @param callable(): mixed $call
     */
    public function afterCommit(callable $call): void
    {
        $this->transactions->afterCommit($call);
    }

    /** Whether `afterCommit` would wait. */
    public function isInTransaction(): bool
    {
        return $this->transactions->isOpen();
    }

    /** @param array<string, mixed> $settings `url`, `prefix` and further arguments of a client in `client` */
    public static function clientOf(array $settings): Client
    {
        // An empty line of an .env file means none.
        $given = array_filter(
            ['url' => $settings['url'] ?? null, 'prefix' => $settings['prefix'] ?? null],
            static fn (mixed $value): bool => $value !== null && $value !== '',
        );
        return new Client(...$given + ($settings['client'] ?? []));
    }
}
