<?php

return [
    'url' => env('DULY_URL'),
    'prefix' => env('DULY_PREFIX'),
    'queue' => 'default',
    'jobs' => ['order.named' => \app\job\Handled::class],
    'worker' => ['queues' => ['default'], 'lease' => 1, 'grace' => 5, 'retry_after' => 0.2],
];
