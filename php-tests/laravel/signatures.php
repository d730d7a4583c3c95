<?php

// What the driver stands on, of Laravel 8 to 12: SignaturesTest compares it with the driver, and with Laravel where
// that is there. A `?` marks a parameter that may be left out, `abstract` what a driver must have, `|` what differs
// between versions. Of the contract, `Illuminate\Queue\Queue` has what the driver has not.

return [
    'Illuminate\Contracts\Queue\Queue' => [
        'size' => 'abstract queue?',
        'push' => 'abstract job, data?, queue?',
        'pushRaw' => 'abstract payload, queue?, options?',
        'later' => 'abstract delay, job, data?, queue?',
        'bulk' => 'abstract jobs, data?, queue?',
        // Its worker gives the index since version 9.
        'pop' => 'abstract queue? | queue?, index?',
    ],
    'Illuminate\Queue\Queue' => [
        'pushOn' => 'queue, job, data?',
        'laterOn' => 'queue, delay, job, data?',
        'bulk' => 'jobs, data?, queue?',
        'createPayload' => 'job, queue, data? | job, queue, data?, delay?',
        'enqueueUsing' => 'job, payload, queue, delay, callback',
        'getConnectionName' => '',
        'setConnectionName' => 'name',
        'setContainer' => 'container',
    ],
    'Illuminate\Queue\Jobs\Job' => [
        'getJobId' => 'abstract ',
        'getRawBody' => 'abstract ',
        'fire' => '',
        'delete' => '',
        'isDeleted' => '',
        'release' => 'delay?',
        'isReleased' => '',
        'isDeletedOrReleased' => '',
        'hasFailed' => '',
        'markAsFailed' => '',
        'fail' => 'e?',
        'failed' => 'e',
        'payload' => '',
        'maxTries' => '',
        'timeout' => '',
        'getConnectionName' => '',
        'getQueue' => '',
    ],
    'Illuminate\Contracts\Queue\Job' => ['attempts' => 'abstract '],
    'Illuminate\Queue\Connectors\ConnectorInterface' => ['connect' => 'abstract config'],
    'Illuminate\Queue\QueueManager' => ['addConnector' => 'driver, resolver', 'extend' => 'driver, resolver'],
    'Illuminate\Queue\Worker' => [
        'daemon' => 'connectionName, queue, options',
        'process' => 'connectionName, job, options',
        'kill' => 'status? | status?, options? | status?, options?, reason?',
        'stop' => 'status? | status?, options? | status?, options?, reason?',
    ],
    'Illuminate\Contracts\Events\Dispatcher' => ['listen' => 'abstract events, listener?'],
    'Illuminate\Contracts\Debug\ExceptionHandler' => ['report' => 'abstract e'],
];
