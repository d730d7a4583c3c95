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
        $found = false;
        foreach ($app->exists('db') ? $app->db->getInstance() : [] as $name => $connection) {
            if (!$connection instanceof PDOConnection || !self::isOpen($connection)) {
                continue;
            }
            $found = true;
            $text = "{$run()} left a transaction of the database {$name} open: it is rolled back";
            $app->log->record("duly: {$text}", 'error');
            try {
                self::isBegun($connection) && $connection->getPdo()->rollBack();
            } catch (\PDOException) {
                // The connection is lost, and the transaction with it.
            }
            $connection->close(); // and think-orm counts its transactions anew
        }
        return $found;
    }

    /** Whether there are any. */
    public static function areThere(App $app): bool
    {
        foreach ($app->exists('db') ? $app->db->getInstance() : [] as $connection) {
            if ($connection instanceof PDOConnection && self::isOpen($connection)) {
                return true;
            }
        }
        return false;
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
