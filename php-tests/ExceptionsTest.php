<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\AuthenticationFailedException;
use Duly\Exception\DuplicateException;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\NotFoundException;
use Duly\Exception\TooLargeException;
use Duly\Exception\UnreachableException;

final class ExceptionsTest extends ServerTestCase
{
    private const PARENTS = [
        'InvalidArgument' => \InvalidArgumentException::class,
        'TooLarge' => \LengthException::class,
        'Duplicate' => \RuntimeException::class,
        'LeaseLost' => \RuntimeException::class,
        'NotFound' => \RuntimeException::class,
        'Unreachable' => \RuntimeException::class,
        'Timeout' => \RuntimeException::class,
        'AuthenticationFailed' => \RuntimeException::class,
        'PermissionDenied' => \RuntimeException::class,
        'ReadOnly' => \RuntimeException::class,
        'Busy' => \RuntimeException::class,
        'StorageFull' => \RuntimeException::class,
        'EvictionPolicy' => \RuntimeException::class,
        'Unsupported' => \RuntimeException::class,
        'NotDurable' => \RuntimeException::class,
        'Corrupt' => \RuntimeException::class,
        'FormatTooNew' => \RuntimeException::class,
        'Protocol' => \RuntimeException::class,
        'Embedded' => \RuntimeException::class,
        'Interrupted' => \RuntimeException::class,
        'Internal' => \LogicException::class,
    ];
    private const TRANSIENT = ['Unreachable', 'Timeout', 'ReadOnly', 'Busy', 'StorageFull', 'Protocol'];

    public function testEachKindHasAClassWithTheInterfaceAndAParentOfSpl(): void
    {
        foreach (self::PARENTS as $short => $parent) {
            $class = "Duly\\Exception\\{$short}Exception";
            self::assertTrue(is_subclass_of($class, ExceptionInterface::class), $class);
            self::assertSame($parent, get_parent_class($class));
            // Made by hand, as a test of one's own code does.
            $error = new $class('text');
            self::assertSame('text', $error->getMessage());
            self::assertSame(strtolower((string) preg_replace('/\B[A-Z]/', '_$0', $short)), $error->getKind());
            self::assertSame(in_array($short, self::TRANSIENT, true), $error->isTransient(), $class);
            self::assertNull($error->getOperation());
            self::assertNull($error->getQueue());
            self::assertNull($error->getJobId());
        }
    }

    public function testADuplicateNamesTheJobThatIsThere(): void
    {
        $id = $this->queue->push(1, key: 'k');
        $error = $this->thrownBy(DuplicateException::class, fn () => $this->queue->push(2, key: 'k'));
        self::assertInstanceOf(ExceptionInterface::class, $error);
        self::assertSame($id, $error->getJobId());
        self::assertSame('duplicate', $error->getKind());
        self::assertSame('push', $error->getOperation());
        self::assertSame('q', $error->getQueue());
        self::assertFalse($error->isTransient());
        self::assertNull($error->getPrevious());
        self::assertSame(0, $error->getCode());
        self::assertSame(__FILE__, $error->getFile());
        self::assertStringContainsString($id, (string) $error);
    }

    public function testNotFoundAndTooLarge(): void
    {
        $error = $this->thrownBy(NotFoundException::class, fn () => $this->queue->reschedule('none', delay: 1));
        self::assertSame('none', $error->getJobId());
        $data = str_repeat('x', 1 << 20);
        $error = $this->thrownBy(TooLargeException::class, fn () => $this->queue->push($data));
        self::assertLessThan(500, strlen($error->getMessage()));
    }

    public function testAnUnreachableServerIsNamedWithoutThePassword(): void
    {
        $client = new Client('redis://:secret@127.0.0.1:1', deadline: 0.3);
        $error = $this->thrownBy(UnreachableException::class, fn () => $client->queue('orders')->push(1));
        self::assertTrue($error->isTransient());
        self::assertSame('unreachable', $error->getKind());
        self::assertStringContainsString('127.0.0.1:1', $error->getMessage());
        self::assertStringContainsString("'orders'", $error->getMessage());
        self::assertStringNotContainsString('secret', (string) $error);
    }

    public function testAWrongPasswordIsNotTransient(): void
    {
        $client = new Client($this->server->url(), username: 'nobody', password: 'wrong');
        $error = $this->thrownBy(AuthenticationFailedException::class, fn () => $client->ping());
        self::assertFalse($error->isTransient());
        self::assertStringNotContainsString('wrong', $error->getMessage());
    }

    public function testAnErrorCanBeCaughtByItsSplParent(): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->client->queue("a\nb");
    }

    public function testAWrongArgumentNamesWhatIsRight(): void
    {
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(1, priority: 11));
        self::assertStringContainsString('0 to 9, where 0 runs first', $error->getMessage());
    }
}
