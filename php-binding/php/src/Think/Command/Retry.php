<?php

declare(strict_types=1);

namespace Duly\Think\Command;

use think\console\Input;
use think\console\input\Argument;
use think\console\Output;

/** `php think duly:retry`: runs failed jobs again, as they are, with their failures forgotten. */
class Retry extends OnFailed
{
    protected function configure(): void
    {
        $this->setName('duly:retry')->setDescription('Run failed jobs of duly again')->takesQueues()
            ->addArgument('id', Argument::IS_ARRAY | Argument::REQUIRED, 'Ids of failed jobs, or "all"');
    }

    protected function execute(Input $input, Output $output): int
    {
        $ids = (array) $input->getArgument('id');
        if ($ids === ['all']) {
            $count = 0;
            foreach ($this->queues() as $queue) {
                $count += $queue->requeueAll();
            }
            $output->info("{$count} failed jobs run again");
            return 0;
        }
        $found = [];
        foreach ($this->queues() as $queue) {
            foreach ($queue->requeue(...$ids) as $requeued) {
                $found[$requeued->outcome][] = $requeued->id;
            }
        }
        foreach ($found['ready'] ?? [] as $id) {
            $output->info("the failed job '{$id}' runs again");
        }
        $missing = array_diff($ids, $found['ready'] ?? []);
        foreach ($missing as $id) {
            $hasNoKey = in_array($id, $found['duplicate'] ?? [], true);
            $why = $hasNoKey ? 'another job has its key now' : 'no queue has it as a failed job';
            $output->error("'{$id}' does not run again: {$why}");
        }
        return $missing === [] ? 0 : 1;
    }
}
