<?php

declare(strict_types=1);

namespace Duly\Think\Command;

use think\console\Input;
use think\console\Output;

/** `php think duly:flush`: removes all failed jobs. */
class Flush extends OnFailed
{
    protected function configure(): void
    {
        $this->setName('duly:flush')->setDescription('Remove all failed jobs of duly')->takesQueues();
    }

    protected function execute(Input $input, Output $output): int
    {
        $count = 0;
        foreach ($this->queues() as $queue) {
            $count += $queue->purge('failed');
        }
        $output->info("{$count} failed jobs are removed");
        return 0;
    }
}
