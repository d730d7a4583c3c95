<?php

return [
    'default' => 'file',
    'level' => [],
    'channels' => ['file' => ['type' => 'File', 'path' => '', 'single' => true]],
];
