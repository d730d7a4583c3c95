<?php

return ['url_route_must' => true];
