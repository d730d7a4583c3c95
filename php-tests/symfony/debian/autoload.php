<?php

declare(strict_types=1);

// Debian's packages php-symfony-*: each part loads those that it needs.
foreach (['Console', 'EventDispatcher', 'Messenger', 'Messenger/Bridge/Redis'] as $part) {
    require_once "Symfony/Component/{$part}/autoload.php";
}
