<?php

/** What `php think duly:work` gives to `duly-worker`: it returns the function that makes a worker. */

declare(strict_types=1);

return (static function (): Closure {
    // Its own autoloader knows this class without the application's.
    $work = Duly\Think\Work::ofEnvironment();
    $work->loadClasses();
    return $work->worker(...);
})();
