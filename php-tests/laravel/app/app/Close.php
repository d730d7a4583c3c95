<?php

declare(strict_types=1);

namespace App;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;

/** A job as Laravel's documentation shows it; its steps say what it does. */
class Close implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    /** @param list<string> $do */
    public function __construct(
        private int $order,
        private array $do = [],
        public ?int $tries = null,
        public ?int $timeout = null,
    ) {
    }

    public function handle(Config $config): void
    {
        $attempts = $this->attempts();
        note("run {$this->order} attempt {$attempts} pid " . getmypid());
        foreach ($this->do as $step) {
            [$verb, $value] = explode(' ', $step, 2) + [1 => ''];
            match ($verb) {
                'release' => $attempts > 1 ? null : $this->release((int) $value),
                'sleep' => $this->sleep((float) $value),
                'throw' => throw new \DomainException($value),
                'throw-once' => $attempts > 1 ? null : throw new \DomainException($value),
                'hang-once' => runs($this->order) > 1 ? null : $this->sleep((float) $value),
                'fail' => $this->fail(new \DomainException($value)),
                'exit-once' => $attempts > 1 ? null : exit(3),
            };
        }
        note("ran {$this->order} attempt {$attempts} {$config['queue.default']}");
    }

    public function failed(?\Throwable $error): void
    {
        note("failed {$this->order} {$error?->getMessage()}");
    }

    private function sleep(float $seconds): void
    {
        $until = microtime(true) + $seconds;
        while (($left = $until - microtime(true)) > 0) {
            usleep((int) min(1e5, $left * 1e6));
        }
    }
}
