<?php

return ['default_timezone' => 'Asia/Shanghai', 'with_route' => true];
