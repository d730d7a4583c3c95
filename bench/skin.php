<?php

/** One call at a time through the PHP skin: prints one JSON object a figure, as `duly-bench` does. */

declare(strict_types=1);

const RUNS = 5;
const CALLS = 1_000;

$data = ['order_id' => 42, 'to' => 'someone@example.org', 'body' => str_repeat('x', 147)];
$queue = (new Duly\Client($argv[1]))->queue('php');
$figures = ['push' => [], 'reserve' => [], 'ack' => []];
for ($run = 0; $run <= RUNS; $run++) {
    $started = hrtime(true);
    for ($i = 0; $i < CALLS; $i++) {
        $queue->push($data);
    }
    $pushed = hrtime(true);
    $jobs = [];
    for ($i = 0; $i < CALLS; $i++) {
        $jobs[] = $queue->reserve(lease: 600.0);
    }
    $reserved = hrtime(true);
    foreach ($jobs as $job) {
        if ($job === null) {
            fwrite(STDERR, "a job was not reserved\n");
            exit(1);
        }
        $job->ack();
    }
    $acked = hrtime(true);
    if ($run === 0) {
        continue; // the first only warms up
    }
    $figures['push'][] = ($pushed - $started) / CALLS / 1e3;
    $figures['reserve'][] = ($reserved - $pushed) / CALLS / 1e3;
    $figures['ack'][] = ($acked - $reserved) / CALLS / 1e3;
}
foreach ($figures as $verb => $tookUs) {
    sort($tookUs);
    echo json_encode([
        'metric' => "skin.php_us_per_$verb",
        'value' => round($tookUs[intdiv(RUNS, 2)], 3),
        'unit' => 'us',
        'runs' => RUNS,
        'min' => round($tookUs[0], 3),
        'max' => round($tookUs[RUNS - 1], 3),
    ]), "\n";
}
