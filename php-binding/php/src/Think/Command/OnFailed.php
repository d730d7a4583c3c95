<?php

declare(strict_types=1);

namespace Duly\Think\Command;

use Duly\Queue;
use Duly\Think\Connector;
use Duly\Think\Duly;
use think\console\Command;
use think\console\input\Option;

/**
 * What the commands about failed jobs have in common: which queues they mean.
 *
 * @internal
 */
abstract class OnFailed extends Command
{
    protected function takesQueues(): static
    {
        return $this->addOption('queue', null, Option::VALUE_REQUIRED, 'These queues, with commas between them');
    }

    /** @return iterable<string, Queue> those of the option, or else all that the configuration names */
    protected function queues(): iterable
    {
        $given = explode(',', (string) $this->input->getOption('queue'));
        foreach (array_unique($given === [''] ? $this->configured() : $given) as $name) {
            yield $name => $this->app->make(Duly::class)->queue($name);
        }
    }

    /** @return list<string> */
    private function configured(): array
    {
        $config = $this->app->config;
        $names = [(string) $config->get('duly.queue', 'default')];
        foreach ($config->get('duly.worker.queues', []) as $key => $value) {
            $names[] = (string) (is_int($value) ? $key : $value);
        }
        foreach ($config->get('queue.connections', []) as $connection) {
            if (ltrim((string) ($connection['type'] ?? ''), '\\') === Connector::class) {
                $names[] = (string) ($connection['queue'] ?? 'default');
            }
        }
        return $names;
    }
}
