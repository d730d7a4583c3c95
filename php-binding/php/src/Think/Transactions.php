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
    /** @var array<int, array{object, list<callable(): mixed>}> those that are open, of any database, and what waits for each */
    private array $open = [];
    /** The number of the last one that began. */
    private int $last = 0;

    public function __construct(private App $app)
    {
    }

    public function isOpen(): bool
    {
        return $this->open !== [];
    }

    /** All were rolled back: a Fiber that is suspended in one may outlive its run, and is to touch no later one. */
    public function forget(): void
    {
        $this->open = [];
    }

    /** @param callable(): mixed $call */
    public function afterCommit(callable $call): void
    {
        $inner = array_key_last($this->open);
        if ($inner !== null) {
            $this->refuseOthers($this->open[$inner][0]);
            $this->open[$inner][1][] = $call;
            return;
        }
        foreach ($this->app->exists('db') ? $this->app->db->getInstance() : [] as $database) {
            $this->refuseOthers($database);
        }
        $call();
    }

    /** @param callable(): mixed $run */
    public function run(callable $run, ?string $connection): mixed
    {
        $database = $this->app->db->connect($connection);
        $this->refuseOthers($database);
        $ours = ++$this->last;
        $this->open[$ours] = [$database, []];
        $depth = count($this->of($database));
        $isOver = false;
        try {
            $result = $database->transaction(function (mixed ...$given) use ($run, $database, $ours): mixed {
                $result = $run(...$given);
                if (!isset($this->open[$ours])) {
                    $text = 'the run in which it began is over, and all was rolled back';
                    throw new \LogicException("duly()->transaction(): {$text}");
                }
                $this->refuseAnEnd($database);
                return $result;
            });
            $calls = $this->open[$ours][1];
            $isOver = true;
        } catch (\Throwable $thrown) {
            $isOver = true; // think-orm has rolled it back
            throw $thrown;
        } finally {
            $isOpen = isset($this->open[$ours]);
            unset($this->open[$ours]);
            // In a Fiber that is destroyed nothing is caught: neither here nor in think-orm.
            $isOver || !$isOpen || self::rollBack($database, $depth);
        }
        $around = $this->of($database);
        $outer = array_key_last($around);
        if ($outer === null) {
            self::callAll($calls);
        } else {
            // It was a savepoint: the outer transaction decides.
            array_push($this->open[$outer][1], ...$calls);
        }
        return $result;
    }

    /** What has begun another transaction and not ended it, or ended ours: the commit that follows would commit nothing. */
    private function refuseAnEnd(object $database): void
    {
        if (!$database instanceof PDOConnection) {
            return;
        }
        $ours = count($this->of($database));
        $depth = OpenTransactions::depth($database);
        if ($depth === $ours && OpenTransactions::isBegun($database)) {
            return;
        }
        self::rollBack($database, $ours + 1);
        throw new \LogicException('duly()->transaction(): ' . ($depth > $ours
            ? 'what ran in it has begun another transaction and not ended it; all is rolled back'
            : 'what ran in it has ended the transaction, which is to be left to duly()->transaction()'));
    }

    /** The transactions of this depth and those in them. */
    private static function rollBack(object $database, int $depth): void
    {
        while ($database instanceof PDOConnection && OpenTransactions::depth($database) >= $depth) {
            $database->rollback();
        }
    }

    /** One that was begun otherwise: what waits for one of ours would be called though that is rolled back. */
    private function refuseOthers(object $database): void
    {
        if (!$database instanceof PDOConnection) {
            return;
        }
        $ours = count($this->of($database));
        if ($ours === 0 ? OpenTransactions::isOpen($database) : OpenTransactions::depth($database) > $ours) {
            throw new \LogicException(
                'a transaction is open that duly does not know: begin that one by duly()->transaction(), too'
            );
        }
    }

    /** @return array<int, mixed> those of this database */
    private function of(object $database): array
    {
        return array_filter($this->open, static fn (array $open): bool => $open[0] === $database);
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
