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

    /**
     * Those of the option, or else all that the configuration names. A connection of think-queue with a server or a
     * prefix of its own has its queue there.
     *
     * @return iterable<string, Queue>
     */
    protected function queues(): iterable
    {
        $config = $this->app->config;
        $option = (string) $this->input->getOption('queue');
        $given = $option === '' ? null : explode(',', $option);
        $names = [(string) $config->get('duly.queue', 'default')];
        foreach ($config->get('duly.worker.queues', []) as $key => $value) {
            $names[] = (string) (is_int($value) ? $key : $value);
        }
        $elsewhere = [];
        foreach ($config->get('queue.connections', []) as $connection => $settings) {
            if (!Connector::isOf($settings)) {
                continue;
            }
            $name = (string) ($settings['queue'] ?? 'default');
            if (!Connector::hasItsOwnServer($settings)) {
                $names[] = $name;
            } elseif ($given === null || in_array($name, $given, true)) {
                $elsewhere["{$name} ({$connection})"] = Connector::clientOf($this->app, $settings)->queue($name);
            }
        }
        foreach (array_unique($given ?? $names) as $name) {
            yield $name => $this->app->make(Duly::class)->queue($name);
        }
        yield from $elsewhere;
    }
}
