<?php

return [
    'default' => 'sqlite',
    'connections' => [
        'sqlite' => ['type' => 'sqlite', 'database' => getenv('DEMO_DB'), 'prefix' => '', 'fields_cache' => false],
    ],
];
