<?php

return ['default' => 'file', 'channels' => ['file' => ['type' => 'File', 'path' => '', 'single' => true]]];
