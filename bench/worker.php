<?php

/** As bench/src/worker.rs: a worker of no-op jobs, which on SIGTERM prints what it saw: worker.php <url> <queue> 1. */

declare(strict_types=1);

use Duly\{Client, Worker};

require __DIR__ . '/../php-binding/php/src/Worker.php';

[, $url, $queue, $concurrency] = $argv + [3 => '1'];
if ($concurrency !== '1') {
    fwrite(STDERR, "a worker process of PHP runs one job at a time\n");
    exit(2);
}
$first = $last = 0;
$late = [];
$worker = new Worker(new Client($url), [$queue]);
$handler = static function (array $data) use (&$first, &$last, &$late): void {
    $last = hrtime(true);
    $first = $first ?: $last;
    $late[] = ($last - $data['t']) / 1e3;
};
$report = $worker->on('', $handler)->run();
$used = getrusage();
echo json_encode([
    'n' => count($late),
    'acked' => $report['acked'],
    'first_ns' => $first,
    'last_ns' => $last,
    'cpu_us' => ($used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']) * 1_000_000
        + $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'],
    'late_us' => $late,
]), "\n";
