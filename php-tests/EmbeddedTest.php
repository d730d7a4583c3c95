<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use PHPUnit\Framework\TestCase;

/** The URL `embedded:`: a server of our own, which another process shares and the last one ends. */
final class EmbeddedTest extends TestCase
{
    private string $folder;

    protected function setUp(): void
    {
        $this->folder = sys_get_temp_dir() . '/duly-' . bin2hex(random_bytes(6));
    }

    protected function tearDown(): void
    {
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    public function testTheEmbeddedServerServesPhpAndKeepsItsJobs(): void
    {
        $push = 'echo (new Duly\Client($argv[1]))->queue("q")->push(["order" => 42]);';
        $id = $this->php($push);
        // The process is over, and so is its server; the jobs are kept for the next one.
        $job = (new Client("embedded:{$this->folder}"))->queue('q')->reserve();
        self::assertNotNull($job);
        self::assertSame([$id, ['order' => 42]], [$job->id, $job->data()]);
        $job->ack();
    }

    public function testAServerThatCannotBeStartedSaysWhatToDo(): void
    {
        $said = $this->php('
            try {
                (new Duly\Client($argv[1]))->ping();
            } catch (Duly\Exception\EmbeddedException $error) {
                echo $error->getKind(), " ", $error->getMessage();
            }
        ', ['DULY_SERVER' => '/nowhere/redis-server']);
        self::assertStringStartsWith('embedded ', $said);
        self::assertStringContainsString('DULY_SERVER names /nowhere/redis-server', $said);
    }

    /** @param array<string, string> $environment */
    private function php(string $code, array $environment = []): string
    {
        $command = [PHP_BINARY, '-r', $code, '--', "embedded:{$this->folder}"];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => STDERR], $pipes, null, $environment + getenv());
        self::assertNotFalse($process);
        $said = (string) stream_get_contents($pipes[1]);
        fclose($pipes[1]);
        self::assertSame(0, proc_close($process), $said);
        return $said;
    }
}
