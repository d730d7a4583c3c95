<?php

declare(strict_types=1);

namespace Duly\Think\Command;

use Duly\Exception\NotFoundException;
use Duly\Queue;
use Duly\State;
use think\console\Input;
use think\console\input\Argument;
use think\console\Output;

/** `php think duly:forget`: removes failed jobs. */
class Forget extends OnFailed
{
    protected function configure(): void
    {
        $this->setName('duly:forget')->setDescription('Remove failed jobs of duly')->takesQueues()
            ->addArgument('id', Argument::IS_ARRAY | Argument::REQUIRED, 'Ids of failed jobs');
    }

    protected function execute(Input $input, Output $output): int
    {
        $left = (array) $input->getArgument('id');
        foreach ($this->queues() as $queue) {
            foreach ($left as $at => $id) {
                if (self::isForgotten($queue, $id)) {
                    $output->info("the failed job '{$id}' is removed");
                    unset($left[$at]);
                }
            }
        }
        foreach ($left as $id) {
            $output->error("no queue has '{$id}' as a failed job");
        }
        return $left === [] ? 0 : 1;
    }

    private static function isForgotten(Queue $queue, string $id): bool
    {
        try {
            return $queue->cancel($id, only: State::Failed) !== null;
        } catch (NotFoundException) {
            return false; // it has been requeued
        }
    }
}
