<?php

return ['default' => 'file', 'stores' => ['file' => ['type' => 'File', 'path' => '', 'prefix' => '', 'expire' => 0]]];
