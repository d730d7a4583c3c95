<?php

/*
 * A worker that notes on the server when each run starts and ends; see worker.py, its sibling.
 */

declare(strict_types=1);

require __DIR__ . '/../../php-binding/php/src/Worker.php';

use Duly\Client;
use Duly\Job;
use Duly\Worker;

$notes = (new Client(getenv('NOTING_URL')))->queue('notes');
$note = function (string $what, Job $job) use ($notes): void {
    $notes->push(sprintf('%s %s %d %d %d', $what, $job->id, $job->token, getmypid(), microtime(true) * 1e6));
};

$client = new Client(manualClock: getenv('NOTING_MANUAL_CLOCK') !== false); // DULY_URL says where
$worker = new Worker($client, ['orders'], lease: (float) getenv('NOTING_LEASE'));
$worker->on('work', function (array $data, Job $job) use ($note): void {
    $note('start', $job);
    usleep((int) ($data['seconds'] * 1e6));
    $note('end', $job);
    if ($data['do'] === 'fail' || ($data['do'] === 'fail once' && $job->attempt === 1)) {
        throw new RuntimeException($data['do']);
    }
    if ($data['do'] === 'kill') {
        posix_kill(getmypid(), SIGKILL);
    }
});
$worker->run(); // until SIGTERM
