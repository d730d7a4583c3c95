<?php

return ['default_timezone' => 'Asia/Shanghai', 'app_namespace' => ''];
