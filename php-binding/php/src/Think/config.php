<?php

// duly, a job queue on Redis and Valkey. docs/php/thinkphp.md of duly explains each setting.
return [
    // The server. null: the environment variable DULY_URL, or duly.url of php.ini, or redis://127.0.0.1:6379
    'url' => env('DULY_URL'),
    // The beginning of all keys; null: duly.prefix of php.ini, or duly:
    'prefix' => env('DULY_PREFIX'),
    // Further arguments of Duly\Client by their names, such as 'deadline' => 2
    'client' => [],
    // The queue of duly()->push(...)
    'queue' => 'default',
    // The classes of job names. Others are found by their names: order.close is app\job\order\Close
    'jobs' => [
        // 'order.close' => app\job\CloseOrder::class,
    ],
    // Jobs that are pushed again and again. duly:work stores them when it starts, and removes what is no longer listed
    'schedules' => [
        'owner' => 'think', // whose they are; another application with the same queues needs another name
        'list' => [
            // 'nightly' => ['job' => ['name' => 'report.nightly'], 'cron' => '0 3 * * *', 'tz' => 'Asia/Shanghai'],
        ],
    ],
    // What `php think duly:work` does without options
    'worker' => [
        'queues' => ['default'], // a strict order; or weights, ['default' => 3, 'mail' => 1]
        'processes' => 1,
        'memory' => 128, // MiB of a process, after which it is replaced; null for no limit
        'max_jobs' => null, // of a process, after which it is replaced; null for no limit
        'lease' => 10, // seconds after which others may take the jobs of a worker that has died
        'grace' => 30, // seconds that the running job may go on after a signal
        'timeout' => null, // seconds of the longest run of jobs without a timeout of their own; null for no limit
        'prefetch' => null, // the most jobs that wait in a process; null for as many as run within 50 ms
        'tries' => 0, // of jobs that think\facade\Queue has pushed and that do not say it themselves; 0 for no limit
        'delay' => 0, // seconds until the next run of such a job, when it has thrown
        'restart_on' => [], // exceptions after which a fresh process goes on; a lost database connection always is one
    ],
];
