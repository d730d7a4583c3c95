<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\CorruptException;
use Duly\Exception\CutOffException;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\NotFoundException;
use Duly\Exception\TooLargeException;
use Duly\Message;
use Duly\Topic;

/** Topics as PHP programs use them; what topics are is in core/tests/engine/topic.rs. */
final class TopicTest extends ServerTestCase
{
    private Topic $logs;

    protected function setUp(): void
    {
        parent::setUp();
        $this->logs = $this->client->topic('logs');
    }

    /**
     * @param array<Message> $messages
     *
     * @return list<mixed>
     */
    private static function data(array $messages): array
    {
        return array_map(static fn (Message $message): mixed => $message->data(), $messages);
    }

    public function testEverySubscriptionGetsEveryMessage(): void
    {
        self::assertSame('logs', $this->logs->name);
        self::assertTrue($this->logs->subscribe('a'));
        self::assertFalse($this->logs->subscribe('a'));
        self::assertTrue($this->logs->subscribe('b'));
        $published = $this->logs->publish(['line' => 'one']);
        self::assertSame([[$published->id], []], [$published->ids, $published->cutOff]);
        $all = $this->logs->publishAll([2, null, 'k' => ['three' => 1.0]]);
        self::assertCount(3, $all->ids);
        self::assertSame($all->ids[2], $all->id);
        foreach (['a', 'b'] as $member) {
            $messages = $this->logs->pull($member);
            self::assertSame([['line' => 'one'], 2, null, ['three' => 1.0]], self::data($messages));
            self::assertSame([$published->id, ...$all->ids], array_column($messages, 'id'));
            self::assertSame(['logs', '{"line":"one"}', 1], [
                $messages[0]->topic,
                $messages[0]->raw,
                $messages[0]->deliveries,
            ]);
            self::assertEquals((object) ['line' => 'one'], $messages[0]->data(assoc: false));
            self::assertSame((int) strstr($messages[0]->id, '-', true), (int) round($messages[0]->publishedAt * 1000));
            self::assertSame([], $this->logs->pull($member, wait: 0.001), 'they are leased');
            self::assertTrue($messages[0]->ack());
            self::assertFalse($messages[0]->ack());
            self::assertSame(3, $this->logs->ack($member, [$messages[0], $messages[1], $messages[2]->id, $all->id]));
            self::assertSame(0, $this->logs->ack($member, $messages) + $this->logs->ack($member, []));
        }
        self::assertSame(0, $this->logs->info()->messages, 'all have read them');
        self::assertTrue($this->logs->unsubscribe('a'));
        self::assertFalse($this->logs->unsubscribe('a'));
        $error = $this->thrownBy(NotFoundException::class, fn () => $this->logs->pull('a'));
        self::assertSame("pull on topic 'logs': 'a' is no member: subscribe first", $error->getMessage());
        self::assertSame(['pull', null], [$error->getOperation(), $error->getQueue()]);
    }

    public function testDataIsEncodedAsThatOfAPush(): void
    {
        $this->logs->subscribe('a');
        $this->logs->publish();
        $this->logs->publish(raw: '{"exact": 1.50}');
        $this->logs->publish("\u{e9}/");
        self::assertSame(['null', '{"exact": 1.50}', "\"\u{e9}/\""], array_column($this->logs->pull('a'), 'raw'));
        $wrong = [
            ['the data cannot be JSON', fn () => $this->logs->publish(NAN)],
            ["the data at 'a.b' cannot be JSON", fn () => $this->logs->publish(['a' => ['b' => "\xff"]])],
            ["the data at index 1 at 'a' cannot be JSON", fn () => $this->logs->publishAll([1, ['a' => INF]])],
            ['give data or raw, not both', fn () => $this->logs->publish(1, raw: '1')],
            ['the data is not one JSON value', fn () => $this->logs->publish(raw: '{')],
            ['make several', fn () => $this->logs->publishAll([])],
            ['make several', fn () => $this->logs->publishAll(range(1, 1001))],
        ];
        foreach ($wrong as [$message, $call]) {
            $error = $this->thrownBy(InvalidArgumentException::class, $call);
            self::assertStringContainsString($message, $error->getMessage());
            self::assertStringStartsWith("publish on topic 'logs': ", $error->getMessage());
        }
        $this->thrownBy(TooLargeException::class, fn () => $this->logs->publish(str_repeat('x', 1 << 20)));
        $throws = new class implements \JsonSerializable {
            public function jsonSerialize(): never
            {
                throw new \DomainException('of its own');
            }
        };
        $error = $this->thrownBy(\DomainException::class, fn () => $this->logs->publishAll([1, $throws]));
        self::assertSame(['of its own', 3], [$error->getMessage(), $this->logs->info()->published]);
        // PHP refuses what JSON allows: the bytes are still there.
        $this->logs->publish(raw: '"\ud800"');
        [$half] = $this->logs->pull('a');
        $error = $this->thrownBy(CorruptException::class, fn () => $half->data());
        self::assertStringContainsString('the data of this message', $error->getMessage());
        self::assertSame('"\ud800"', $half->raw);
    }

    /** What runs while one is encoded may free the others. */
    public function testAValueMayChangeTheArrayThatItIsIn(): void
    {
        $this->logs->subscribe('a');
        $values = [null, ['text' => str_repeat('d', 100)]];
        $changes = new class ($values) implements \JsonSerializable {
            /** @param array<mixed> $values */
            public function __construct(private array &$values)
            {
            }

            public function jsonSerialize(): string
            {
                $this->values = array_fill(0, 500, str_repeat('z', 100));
                return 'changed';
            }
        };
        $values[0] = &$changes;
        $this->logs->publishAll($values);
        self::assertSame(['changed', ['text' => str_repeat('d', 100)]], self::data($this->logs->pull('a')));
    }

    public function testMembersShareASubscription(): void
    {
        self::assertTrue($this->logs->subscribe('p1', 'parsers'));
        self::assertFalse($this->logs->subscribe('p2', subscription: 'parsers'));
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->logs->subscribe('p1'));
        self::assertStringContainsString("the subscription 'parsers': unsubscribe it first", $error->getMessage());
        $this->logs->publishAll([1, 2, 3, 4]);
        $first = $this->logs->pull('p1', max: 2);
        self::assertSame([1, 2], self::data($first));
        self::assertSame([3, 4], self::data($second = $this->logs->pull('p2', lease: 60)));
        [$subscription] = $this->logs->info()->subscriptions;
        self::assertSame(['parsers', 0, 0, 4], [
            $subscription->name,
            $subscription->read,
            $subscription->unread,
            $subscription->pulled,
        ]);
        self::assertSame(['p1', 'p2'], array_column($subscription->members, 'name'));
        self::assertSame([2, 2], array_column($subscription->members, 'pulled'));
        self::assertSame(2, $this->logs->ack('p1', $second), "they are the subscription's");
        // Who leaves leaves its messages to the other one.
        $this->logs->unsubscribe('p1');
        $again = $this->logs->pull('p2');
        self::assertSame([[1, 2], [2, 2]], [self::data($again), array_column($again, 'deliveries')]);
        $error = $this->thrownBy(NotFoundException::class, fn () => $first[0]->ack());
        self::assertSame("ack on topic 'logs': 'p1' is no member: subscribe first", $error->getMessage());
    }

    public function testWhatIsNotAckedInItsLeaseComesAgain(): void
    {
        $this->logs->subscribe('a');
        $this->logs->publish('x');
        self::assertSame([1], array_column($this->logs->pull('a'), 'deliveries'));
        $again = $this->logs->pull('a', wait: 60, lease: 0.001);
        self::assertSame([['x'], [2]], [self::data($again), array_column($again, 'deliveries')]);
    }

    public function testANewSubscriptionBeginsWhereItSays(): void
    {
        $this->logs->publishAll([1, 2]);
        $this->logs->subscribe('late', from: 'latest');
        $this->logs->subscribe('early', from: 'earliest');
        $this->logs->publish(3);
        self::assertSame([[3], [1, 2, 3]], [
            self::data($this->logs->pull('late')),
            self::data($this->logs->pull('early')),
        ]);
    }

    public function testInfoSaysWhatIsHereAndWhoReadsIt(): void
    {
        $empty = $this->logs->info();
        self::assertSame([0, 0, 0, null], [$empty->published, $empty->messages, $empty->bytes, $empty->oldestAt]);
        self::assertSame([604800.0, 1_000_000, 100_000_000, [], []], [
            $empty->maxAge,
            $empty->maxMessages,
            $empty->maxBytes,
            $empty->subscriptions,
            $empty->cutOff,
        ]);
        $this->logs->subscribe('a');
        $this->logs->publishAll(['abc', 22]);
        [$message] = $this->logs->pull('a', 1);
        $info = $this->logs->info();
        self::assertSame([2, 2, 7, $message->publishedAt], [
            $info->published,
            $info->messages,
            $info->bytes,
            $info->oldestAt,
        ]);
        self::assertSame(['a', 0, 1, 1], array_values(array_slice(get_object_vars($info->subscriptions[0]), 0, 4)));
        self::assertGreaterThanOrEqual(0.0, $info->subscriptions[0]->members[0]->silentFor);
    }

    public function testMembersSayWhoIsThereAndHowFarBehind(): void
    {
        self::assertSame([], $this->logs->members());
        $this->logs->setBounds(messages: 2);
        $this->logs->subscribe('silent');
        $this->logs->subscribe('p', 'parsers');
        $this->logs->publishAll([1, 2]);
        $this->logs->pull('p', max: 1);
        [$p, $silent] = $this->logs->members();
        self::assertSame(['p', 'parsers', 1, 2, false], [
            $p->name,
            $p->subscription,
            $p->pulled,
            $p->behind,
            $p->isCutOff,
        ]);
        self::assertGreaterThanOrEqual(0.0, $p->silentFor);
        self::assertSame(['silent', 'silent', 2], [$silent->name, $silent->subscription, $silent->behind]);
        $this->logs->publish(3);
        self::assertSame([true, true], array_column($this->logs->members(), 'isCutOff'));
    }

    public function testBoundsAreSetAndGoBackToTheirDefaults(): void
    {
        $bounds = function (): array {
            $info = $this->logs->info();
            return [$info->maxAge, $info->maxMessages, $info->maxBytes];
        };
        $this->logs->setBounds(1.5, 2, 3);
        self::assertSame([1.5, 2, 3], $bounds());
        $this->logs->setBounds(bytes: 5);
        self::assertSame([604800.0, 1_000_000, 5], $bounds());
        $this->logs->setBounds();
        self::assertSame([604800.0, 1_000_000, 100_000_000], $bounds());
    }

    public function testASilentSubscriptionIsCutOffAndHearsOfIt(): void
    {
        $this->logs->setBounds(messages: 2);
        $this->logs->subscribe('silent');
        self::assertSame([], $this->logs->publishAll([1, 2])->cutOff);
        [$message] = $this->logs->pull('silent', 1);
        self::assertSame(['silent'], $this->logs->publish(3)->cutOff);
        [$cut] = $this->logs->info()->cutOff;
        self::assertSame(['silent', 1, 1], [$cut->name, $cut->first, $cut->last]);
        self::assertGreaterThanOrEqual($message->publishedAt, $cut->at);
        $calls = [
            'pull' => fn () => $this->logs->pull('silent'),
            'ack' => fn () => $message->ack(),
            'pull of the client' => fn () => $this->client->pull('silent', wait: 60),
        ];
        foreach ($calls as $operation => $call) {
            $error = $this->thrownBy(CutOffException::class, $call);
            self::assertInstanceOf(ExceptionInterface::class, $error);
            self::assertSame(['cut_off', false], [$error->getKind(), $error->isTransient()], $operation);
            self::assertStringContainsString("'silent' of 'silent' has lost 1 message (1) that", $error->getMessage());
        }
        self::assertTrue($this->logs->subscribe('silent'));
        self::assertSame([], $this->logs->info()->cutOff);
        $this->logs->publish(4);
        self::assertSame([4], self::data($this->logs->pull('silent')));
    }

    public function testADeletedTopicHasNoMembers(): void
    {
        $this->logs->subscribe('a');
        $this->logs->publish(1);
        $this->logs->delete();
        self::assertSame([0, []], [$this->logs->info()->published, $this->logs->info()->subscriptions]);
        $this->thrownBy(NotFoundException::class, fn () => $this->logs->pull('a'));
    }

    public function testOneCallPullsFromAllTopicsOfAMember(): void
    {
        self::assertSame([], $this->client->topicsOf('m'));
        $error = $this->thrownBy(NotFoundException::class, fn () => $this->client->pull('m'));
        self::assertStringContainsString('has no topics: subscribe to one first', $error->getMessage());
        foreach (['z', 'x', 'y'] as $name) {
            $this->client->topic($name)->subscribe('m');
        }
        self::assertSame(['x', 'y', 'z'], $this->client->topicsOf('m'));
        self::assertSame([], $this->client->pull('m', wait: 0.001));
        $this->client->topic('x')->publishAll([1, 2]);
        $this->client->topic('z')->publish(3);
        $messages = $this->client->pull('m', max: 2, lease: 60);
        self::assertCount(2, $messages, 'of all topics together');
        $messages = [...$messages, ...$this->client->pull('m')];
        $of = [];
        foreach ($messages as $message) {
            self::assertTrue($message->ack());
            $of[$message->topic][] = $message->data();
        }
        ksort($of);
        self::assertSame(['x' => [1, 2], 'z' => [3]], $of);
        // The same id may be that of another message there.
        $error = $this->thrownBy(
            InvalidArgumentException::class,
            fn () => $this->client->topic('y')->ack('m', $messages),
        );
        self::assertStringContainsString("is of the topic '{$messages[0]->topic}': ack it there", $error->getMessage());
    }

    public function testAWaitEndsWithTheMessageOfAnotherProcess(): void
    {
        $this->logs->subscribe('a');
        foreach (['$client->topic("logs")->pull("a", wait: 60)', '$client->pull("a", wait: 60)'] as $pull) {
            $program = $this->program("
                [\$message] = {$pull};
                say('got ' . \$message->data() . ', ' . var_export(\$message->ack(), true));
            ");
            $this->server->untilSomebodyWaits();
            $this->logs->publish($pull);
            self::assertSame(0, $program->end(), $program->said());
            self::assertSame("got {$pull}, true\n", $program->said());
        }
    }

    public function testSignalHandlersRunWhileMessagesAreAwaited(): void
    {
        $this->logs->subscribe('a');
        foreach (['$client->topic("logs")->pull("a", wait: 60)', '$client->pull("a", wait: 60)'] as $pull) {
            $program = $this->program('
                pcntl_signal(SIGTERM, function () { say("handled"); });
                pcntl_signal(SIGINT, function () { throw new DomainException("mine"); });
                try {
                    ' . $pull . ';
                } catch (DomainException $error) {
                    say("caught " . $error->getMessage());
                }
                say((string) count($client->pull("a")));
            ');
            $this->server->untilSomebodyWaits();
            $program->signal(SIGTERM);
            $program->hear('handled');
            self::assertSame("handled\n", $program->said(), 'the wait goes on');
            $program->signal(SIGINT);
            self::assertSame(0, $program->end(), $program->said());
            self::assertSame("handled\ncaught mine\n0\n", $program->said());
            Server::until(
                fn (): bool => str_contains((string) $this->server->command('INFO', 'clients'), "blocked_clients:0\r"),
                'the wait goes on at the server',
            );
        }
    }

    public function testAForkedChildMayAckWhatItsParentHasPulled(): void
    {
        $program = $this->program('
            $topic = $client->topic("logs");
            $topic->subscribe("a");
            $topic->publishAll([1, 2]);
            [$one, $two] = $topic->pull("a");
            $child = pcntl_fork();
            if ($child === 0) {
                say("child " . var_export($one->ack(), true));
                exit;
            }
            pcntl_waitpid($child, $status);
            say("parent " . var_export([$one->ack(), $two->ack()], true));
        ');
        self::assertSame(0, $program->end(), $program->said());
        self::assertSame("child true\nparent " . var_export([false, true], true) . "\n", $program->said());
    }

    /** @return iterable<string, array{string, callable(Topic): mixed}> */
    public static function wrong(): iterable
    {
        $of = static fn (string $call): string => "{$call} on topic 'logs': ";
        yield 'from' => [
            $of('subscribe') . "from must be 'latest' or 'earliest'",
            fn ($t) => $t->subscribe('a', from: 'now'),
        ];
        yield 'member' => [$of('subscribe'), fn ($t) => $t->subscribe('a b')];
        yield 'member, no UTF-8' => [$of('unsubscribe') . 'member must be text in UTF-8', fn ($t) => $t->unsubscribe(
            "\xff",
        )];
        yield 'subscription' => [$of('subscribe'), fn ($t) => $t->subscribe('a', subscription: '')];
        yield 'max' => [$of('pull') . 'a pull asks for 1 to 1000 messages, not 0', fn ($t) => $t->pull('a', 0)];
        yield 'max, too many' => [$of('pull') . 'max must be a whole number from 0 to 1000, not 1001', fn ($t) =>
            $t->pull('a', max: 1001)];
        yield 'wait' => [$of('pull') . 'wait: seconds must be 0 or more', fn ($t) => $t->pull('a', wait: -1)];
        yield 'wait, a text' => [$of('pull') . 'wait must be seconds', fn ($t) => $t->pull('a', wait: '1')];
        yield 'lease' => [$of('pull') . 'the lease of messages is 1 ms to 24 h', fn ($t) => $t->pull('a', lease: 0)];
        yield 'lease, a text' => [$of('pull') . 'lease must be seconds', fn ($t) => $t->pull('a', lease: 'long')];
        yield 'an id' => [$of('ack') . "'x' is not the id of a message", fn ($t) => $t->ack('a', ['x'])];
        yield 'no message' => [$of('ack') . 'messages must be a list of Duly\Message or their ids, not of int', fn (
            $t,
        ) => $t->ack('a', [5])];
        yield 'age' => [$of('setBounds') . 'the age of messages is 1 s to 10 years', fn ($t) => $t->setBounds(0.5)];
        yield 'bytes' => [$of('setBounds') . 'a topic keeps at least 1 message', fn ($t) => $t->setBounds(bytes: 0)];
        yield 'messages' => [$of('setBounds') . 'messages must be a whole number', fn ($t) => $t->setBounds(
            messages: -1,
        )];
    }

    /**
     * @dataProvider wrong
     *
     * @param callable(Topic): mixed $call
     */
    public function testWrongArgumentsAreRefused(string $message, callable $call): void
    {
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $call($this->logs));
        self::assertStringStartsWith($message, $error->getMessage());
        self::assertSame([0, []], [$this->logs->info()->published, $this->logs->info()->subscriptions]);
    }

    public function testWrongArgumentsOfAClientAreRefused(): void
    {
        $wrong = [
            ["topic on topic 'a b': ", fn () => $this->client->topic('a b')],
            ['name must be text in UTF-8', fn () => $this->client->topic("\xff")],
            ['topicsOf: ', fn () => $this->client->topicsOf('a b')],
            ['pull: a pull asks for 1 to 1000 messages', fn () => $this->client->pull('a', max: 0)],
            ['lease must be seconds', fn () => $this->client->pull('a', lease: 'long')],
        ];
        foreach ($wrong as [$message, $call]) {
            $error = $this->thrownBy(InvalidArgumentException::class, $call);
            self::assertStringStartsWith($message, $error->getMessage());
        }
        $this->thrownBy(\TypeError::class, fn () => $this->logs->publishAll('text'));
        $this->thrownBy(\TypeError::class, fn () => $this->logs->subscribe('a', from: null));
    }

    /** Data of messages is as secret as that of jobs. */
    public function testTracesHaveNoData(): void
    {
        $this->logs->subscribe('a');
        $this->logs->publish('s3cr3t');
        $messages = $this->logs->pull('a');
        $before = ini_set('zend.exception_ignore_args', '0');
        try {
            foreach (
                [
                    fn () => $this->logs->publish(['s3cr3t', NAN]),
                    fn () => $this->logs->publishAll(['s3cr3t', NAN]),
                    fn () => $this->client->topic('other')->ack('a', $messages),
                ] as $call
            ) {
                $error = $this->thrownBy(InvalidArgumentException::class, $call);
                self::assertStringNotContainsString('s3cr3t', $error . print_r($error->getTrace()[0], true));
            }
        } finally {
            ini_set('zend.exception_ignore_args', (string) $before);
        }
    }
}
