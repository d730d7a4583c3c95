<?php

declare(strict_types=1);

namespace Duly\Think\Command;

use think\console\Input;
use think\console\input\Option;
use think\console\Output;
use think\console\Table;

/** `php think duly:failed`: the jobs in `failed`, the newest first. */
class Failed extends OnFailed
{
    private const LONGEST_ERROR = 100;

    protected function configure(): void
    {
        $this->setName('duly:failed')->setDescription('List the failed jobs of duly')->takesQueues()
            ->addOption('limit', null, Option::VALUE_REQUIRED, 'The most jobs of each queue', 20);
    }

    protected function execute(Input $input, Output $output): int
    {
        $rows = [];
        $limit = max(1, min(1000, (int) $input->getOption('limit')));
        foreach ($this->queues() as $name => $queue) {
            // `peek` gives those that have failed first.
            $before = max(0, $queue->counts()->failed - $limit);
            foreach (array_reverse($queue->peek('failed', offset: $before, limit: $limit)) as $job) {
                $error = mb_strimwidth(strtok($job->error, "\n") ?: '', 0, self::LONGEST_ERROR, '...', 'UTF-8');
                $at = $job->at === null ? '' : date('Y-m-d H:i:s', (int) $job->at);
                $rows[] = [$job->id, $name, $job->name ?? '', $job->attempts, $at, $error];
            }
        }
        if ($rows === []) {
            $output->info('no job has failed');
            return 0;
        }
        $table = new Table();
        $table->setHeader(['id', 'queue', 'name', 'attempts', 'failed at', 'error']);
        $table->setRows($rows);
        $output->writeln($table->render());
        return 0;
    }
}
