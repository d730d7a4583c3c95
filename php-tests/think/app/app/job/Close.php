<?php

declare(strict_types=1);

namespace app\job;

use think\queue\Job;

/** A handler as ThinkPHP's documentation shows it; the data says what it does. */
class Close
{
    public function fire(Job $job, mixed $data): void
    {
        $attempts = $job->attempts();
        note("run {$data['order']} attempt {$attempts} pid " . getmypid());
        foreach ($data['do'] ?? ['delete'] as $step) {
            [$verb, $value] = explode(' ', $step, 2) + [1 => ''];
            match ($verb) {
                'delete' => $job->delete(),
                'release' => $attempts > 1 ? $job->delete() : $job->release((int) $value),
                'sleep' => $this->sleep((float) $value),
                'throw' => throw new \DomainException($value),
                'throw-once' => $attempts > 1 ? null : throw new \DomainException($value),
                'hang-once' => $attempts > 1 ? null : $this->sleep((float) $value),
                'nothing' => null,
                'fatal' => $this->fatal(),
                'exit' => exit(3),
            };
        }
        note("ran {$data['order']} attempt {$attempts}");
    }

    /** @param mixed $data */
    public function failed($data, \Throwable $error): void
    {
        note("failed {$data['order']} {$error->getMessage()}");
    }

    private function sleep(float $seconds): void
    {
        $until = microtime(true) + $seconds;
        while (($left = $until - microtime(true)) > 0) {
            usleep((int) min(1e5, $left * 1e6));
        }
    }

    private function fatal(): never
    {
        posix_kill(posix_getpid(), SIGKILL);
        exit;
    }
}
