<?php

declare(strict_types=1);

namespace Duly\Think;

use think\App;
use think\db\PDOConnection;

/**
 * Calls that wait until the database has committed.
 *
 * think-orm tells nobody of a commit, so the transaction is begun here. If the process dies between the commit and the
 * calls, they are lost.
 *
 * @internal of `Duly\Think\Duly`
 */
final class Transactions
{
    /** @var list<list<callable(): mixed>> what waits for each transaction that is open, the outermost first */
    private array $waiting = [];

    public function __construct(private App $app)
    {
    }

    public function isOpen(): bool
    {
        return $this->waiting !== [];
    }

    /** @param callable(): mixed $call */
    public function afterCommit(callable $call): void
    {
        if ($this->waiting === []) {
            $call();
            return;
        }
        $this->waiting[array_key_last($this->waiting)][] = $call;
    }

    /** @param callable(): mixed $run */
    public function run(callable $run, ?string $connection): mixed
    {
        $database = $this->app->db->connect($connection);
        if ($this->waiting === [] && $database instanceof PDOConnection) {
            $pdo = $database->getPdo();
            if ($pdo instanceof \PDO && $pdo->inTransaction()) {
                // The end of this one would be a savepoint, and what waits would be called before the commit.
                throw new \LogicException(
                    'a transaction is open that duly does not know: begin the outer one by duly()->transaction(), too'
                );
            }
        }
        $this->waiting[] = [];
        try {
            $result = $database->transaction($run);
        } catch (\Throwable $error) {
            array_pop($this->waiting);
            throw $error;
        }
        $calls = array_pop($this->waiting) ?? [];
        if ($this->waiting === []) {
            self::callAll($calls);
        } else {
            // It was a savepoint: the outer transaction decides.
            array_push($this->waiting[array_key_last($this->waiting)], ...$calls);
        }
        return $result;
    }

    /**
     * All of them, also if one throws.
     *
     * @param list<callable(): mixed> $calls
     */
    private static function callAll(array $calls): void
    {
        $thrown = null;
        foreach ($calls as $call) {
            try {
                $call();
            } catch (\Throwable $error) {
                $thrown ??= $error;
            }
        }
        if ($thrown !== null) {
            throw $thrown;
        }
    }
}
