<?php

return [
    'default' => 'sqlite',
    'connections' => [
        'sqlite' => [
            'type' => 'sqlite',
            'database' => app()->getRuntimePath() . 'orders.db',
            'prefix' => '',
            'fields_cache' => false,
            'trigger_sql' => false,
        ],
    ],
];
