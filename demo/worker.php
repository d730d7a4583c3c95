<?php

/*
 * Sends letters: a worker process in PHP. One handler runs at a time; for more, start more processes.
 * Leases are renewed by a native thread, also while PHP waits for a database or sleeps.
 */

declare(strict_types=1);

require __DIR__ . '/../php-binding/php/src/Worker.php'; // Composer does this in a project of your own

use Duly\Client;
use Duly\Job;
use Duly\Worker;

/** Tells the director; demo/run.py reads these lines. */
function tell(string $what, ?Job $job = null): void
{
    $line = ['what' => $what, 'at' => microtime(true)];
    if ($job !== null) {
        $line += ['job' => $job->id, 'attempt' => $job->attempt, 'token' => $job->token];
        $line['about'] = "letter {$job->data()['letter']}";
    }
    fwrite(STDOUT, '@ ' . json_encode($line, JSON_THROW_ON_ERROR) . "\n");
}

$worker = new Worker(new Client(), ['letters'], lease: 1.5, grace: 5.0);

// If it returns, the job is done; if it throws, the job has failed.
$worker->on('letter.send', function (array $letter, Job $job): void {
    tell('started', $job);
    tell('done', $job);
});

tell('ready');
$worker->run(); // until SIGTERM or Ctrl-C
