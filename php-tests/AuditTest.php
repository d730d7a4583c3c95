<?php

declare(strict_types=1);

namespace Duly\Tests;

final class AuditTest extends ServerTestCase
{
    public function testAHealthyQueueIsClean(): void
    {
        $this->queue->pushMany([['data' => 1], ['data' => 2, 'delay' => 60]]);
        $report = $this->queue->audit();
        self::assertTrue($report->clean);
        self::assertSame([], $report->findings);
        self::assertSame([2, 1], [$report->jobs, $report->entries]);
        self::assertGreaterThan(0, $report->pages);
        self::assertSame(0, $report->suspects);
    }

    public function testWhatIsBrokenIsFoundAndMendedOnlyWhenAsked(): void
    {
        $this->queue->push(1, id: 'a', delay: 60);
        $this->server->command('ZREM', "{$this->prefix}{q}:delayed", 'a');
        $report = $this->queue->audit();
        self::assertFalse($report->clean);
        [$finding] = $report->findings;
        self::assertSame('a', $finding->id);
        self::assertNotSame('', $finding->invariant);
        self::assertNotSame('', $finding->detail);
        self::assertFalse($finding->repaired);
        [$mended] = $this->queue->audit(repair: true)->findings;
        self::assertTrue($mended->repaired);
        self::assertSame($finding->invariant, $mended->invariant);
        self::assertTrue($this->queue->audit()->clean);
    }
}
