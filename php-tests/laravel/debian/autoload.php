<?php

declare(strict_types=1);

// Debian's packages php-illuminate-*: each part loads those that it needs.
foreach (['Bus', 'Events', 'Queue', 'Redis'] as $part) {
    require_once "Illuminate/{$part}/autoload.php";
}
