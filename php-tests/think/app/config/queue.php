<?php

return [
    'default' => 'duly',
    'connections' => [
        'duly' => ['type' => \Duly\Think\Connector::class, 'queue' => 'default', 'lease' => 1, 'retry_after' => 0.2],
        'acks' => ['type' => \Duly\Think\Connector::class, 'queue' => 'acks', 'unsettled' => 'ack'],
        'late' => ['type' => \Duly\Think\Connector::class, 'queue' => 'late', 'after_commit' => true],
        'apart' => [
            'type' => \Duly\Think\Connector::class,
            'queue' => 'default',
            'prefix' => env('DULY_PREFIX') . 'apart:',
        ],
        'none' => ['type' => \app\NoQueue::class],
        // think-queue's own driver, on the same server.
        'redis' => [
            'type' => 'redis',
            'queue' => 'default',
            'host' => substr(env('DULY_URL'), strlen('unix://')),
            'port' => 0,
            'password' => '',
            'select' => 0,
            'timeout' => 0,
            'persistent' => false,
        ],
    ],
    'failed' => ['type' => 'database', 'table' => 'failed_jobs'],
];
