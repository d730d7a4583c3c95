<?php

declare(strict_types=1);

namespace Duly\Think;

use think\App;
use think\db\PDOConnection;

/**
 * Transactions of the database that a run has begun and not ended, as one that was interrupted in the middle. In them
 * the commits of all later jobs would only be savepoints, and be rolled back with the end of the process.
 *
 * @internal of `Duly\Think`
 */
final class OpenTransactions
{
    /**
     * Rolls them back; gives whether there were any.
     *
     * @param callable(): string $run what the log calls it
     */
    public static function end(App $app, callable $run): bool
    {
        $open = self::of($app);
        foreach ($open as $name => $connection) {
            $text = "{$run()} left a transaction of the database {$name} open: it is rolled back";
            $app->log->record("duly: {$text}", 'error');
            try {
                self::isBegun($connection) && $connection->getPdo()->rollBack();
            } catch (\PDOException) {
                // The connection is lost, and the transaction with it.
            }
            $connection->close(); // and think-orm counts its transactions anew
        }
        $app->exists(Transactions::class) && $app->make(Transactions::class)->forget();
        return $open !== [];
    }

    /** Whether there are any. */
    public static function areThere(App $app): bool
    {
        return self::of($app) !== [];
    }

    /** @return array<string, PDOConnection> the connections in one, by their names */
    private static function of(App $app): array
    {
        $isOpen = static fn (mixed $one): bool => $one instanceof PDOConnection && self::isOpen($one);
        return array_filter($app->exists('db') ? $app->db->getInstance() : [], $isOpen);
    }

    /** How many of them are in one another, as think-orm counts. */
    public static function depth(PDOConnection $connection): int
    {
        return (fn (): int => $this->transTimes)->bindTo($connection, PDOConnection::class)();
    }

    /** Whether there is one, also one that think-orm has not begun. */
    public static function isOpen(PDOConnection $connection): bool
    {
        return self::depth($connection) > 0 || self::isBegun($connection);
    }

    /** Whether the database knows of one. */
    public static function isBegun(PDOConnection $connection): bool
    {
        $pdo = $connection->getPdo();
        return $pdo instanceof \PDO && $pdo->inTransaction();
    }
}
