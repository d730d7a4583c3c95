<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;

/** `Client::reserveFrom`: a list of names is a strict order, names with numbers are weights. */
final class SeveralQueuesTest extends ServerTestCase
{
    public function testAListIsAStrictOrder(): void
    {
        foreach (['first', 'second'] as $name) {
            $this->client->queue($name)->pushMany([['data' => "{$name} 1"], ['data' => "{$name} 2"]]);
        }
        $taken = [];
        while (($jobs = $this->client->reserveFrom(['first', 'second'], max: 3)) !== []) {
            foreach ($jobs as $job) {
                $taken[] = $job->data();
                self::assertSame(explode(' ', $job->data())[0], $job->queue->name);
                $job->ack();
            }
        }
        self::assertSame(['first 1', 'first 2', 'second 1', 'second 2'], $taken);
    }

    public function testWeightsShareTheTurnsAndStarveNobody(): void
    {
        $jobs = array_fill(0, 200, ['data' => 1]);
        $this->client->queue('heavy')->pushMany($jobs);
        $this->client->queue('7')->pushMany($jobs);
        $turns = ['heavy' => 0, '7' => 0];
        for ($turn = 0; $turn < 160; $turn++) {
            // PHP makes a number of the key '7'.
            [$job] = $this->client->reserveFrom(['heavy' => 3, '7' => 1]);
            $turns[$job->queue->name]++;
        }
        // 120 and 40 are expected; the chance to be this far off is less than one in a million.
        self::assertGreaterThan(90, $turns['heavy']);
        self::assertGreaterThan(12, $turns['7']);
    }

    public function testItWaitsForAllOfThem(): void
    {
        $began = microtime(true);
        self::assertSame([], $this->client->reserveFrom(['first', 'second']));
        self::assertLessThan(5, microtime(true) - $began);
        $program = $this->program('
            say("ready");
            [$job] = $client->reserveFrom(["first" => 1, "second" => 1], wait: 20, lease: 30);
            say($job->data());
            $job->ack();
        ');
        $program->hear('ready');
        $this->server->untilSomebodyWaits();
        $this->client->queue('second')->push('at last');
        self::assertSame(0, $program->end());
        self::assertStringContainsString('at last', $program->said());
    }

    public function testTheLeaseIsAsLongAsItIsTold(): void
    {
        $this->queue->push(1);
        [$job] = $this->client->reserveFrom(['q'], lease: 0.05);
        self::assertNotNull($again = $this->queue->reserve(wait: 5));
        $this->thrownBy(LeaseLostException::class, fn () => $job->ack());
        $again->ack();
    }

    public function testWhatIsNoChoiceOfQueuesIsRefused(): void
    {
        $wrong = [
            [], [1.5], [null], [[]], ['orders' => 'x{y'], ['x y'], [''], ['orders', 'mail' => 2], ['orders' => 0],
            ['orders' => 1001], ['orders' => -1], ['orders' => '3'] + ['mail' => 1], [$this->queue],
        ];
        foreach ($wrong as $queues) {
            $this->thrownBy(InvalidArgumentException::class, fn () => $this->client->reserveFrom($queues));
        }
        foreach ([0, -1, 1001] as $max) {
            $refused = fn () => $this->client->reserveFrom(['q'], max: $max);
            $error = $this->thrownBy(InvalidArgumentException::class, $refused);
            self::assertStringContainsString('1000', str_replace(',', '', $error->getMessage()));
        }
    }
}
