<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Runs;
use Duly\Signals;
use Duly\Worker;

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

    /** PHP may lack pcntl, and with it the constants, also those in the default of a parameter. */
    public function testWhereASignalIsNamedPhpWasAskedForSignals(): void
    {
        $found = 0;
        $methods = static fn (string $class): array => (new \ReflectionClass($class))->getMethods();
        foreach ([...$methods(Worker::class), ...$methods(Runs::class), ...$methods(Signals::class)] as $method) {
            $lines = (array) file((string) $method->getFileName());
            $length = $method->getEndLine() - $method->getStartLine() + 1;
            $code = implode(array_slice($lines, $method->getStartLine() - 1, $length));
            $tokens = array_column(array_filter(token_get_all("<?php {$code}"), is_array(...)), 1);
            $names = preg_grep('/^SIG(?!NALS$)[A-Z_]+$/', $tokens);
            $asked = (string) (strstr($code, "function_exists('pcntl_") ?: strstr($code, 'self::areHeard()'));
            foreach ($names as $name) {
                self::assertStringContainsString($name, $asked, $method->getName());
                $found++;
            }
        }
        self::assertGreaterThan(0, $found);
    }

    public function testTheExtensionNamesItself(): void
    {
        self::assertMatchesRegularExpression('/^\d+\.\d+\.\d+$/', (string) phpversion('duly'));
    }
}
