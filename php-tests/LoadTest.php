<?php

declare(strict_types=1);

namespace Duly\Tests;

final class LoadTest extends ServerTestCase
{
    public function testLoadingAndMakingAClientStartsNoThreadAndNoConnection(): void
    {
        $program = $this->program('
            $client->queue("q");
            say("threads " . (count(scandir("/proc/self/task")) - 2));
            $sockets = 0;
            foreach (scandir("/proc/self/fd") as $fd) {
                $sockets += str_starts_with((string) @readlink("/proc/self/fd/$fd"), "socket:") ? 1 : 0;
            }
            say("sockets $sockets");
        ');
        self::assertSame(0, $program->end());
        self::assertSame("threads 1\nsockets 0\n", $program->said());
    }

    public function testTheExtensionNamesItself(): void
    {
        self::assertMatchesRegularExpression('/^\d+\.\d+\.\d+$/', (string) phpversion('duly'));
    }
}
