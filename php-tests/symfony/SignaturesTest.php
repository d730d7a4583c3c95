<?php

declare(strict_types=1);

namespace Duly\Tests\Symfony;

use Duly\Tests\Signatures;
use PHPUnit\Framework\TestCase;

/** The methods of Messenger that the transport stands on, as data: checked also where there is no Symfony. */
final class SignaturesTest extends TestCase
{
    use Signatures;

    private const WITHOUT = SymfonyTestCase::WITHOUT;
    private const SOURCE = __DIR__ . '/../../examples/drivers/messenger';

    public function testTheMethodsOfTheTransportFitThoseOfMessenger(): void
    {
        $receiver = ['Receiver\ReceiverInterface', 'Receiver\MessageCountAwareInterface'];
        foreach ([...$receiver, 'Sender\SenderInterface'] as $name) {
            self::assertFits(self::SOURCE . '/DulyTransport.php', "Symfony\Component\Messenger\Transport\\{$name}");
        }
        $factory = 'Symfony\Component\Messenger\Transport\TransportFactoryInterface';
        self::assertFits(self::SOURCE . '/DulyTransportFactory.php', $factory);
    }

    private static function folder(): string
    {
        return __DIR__;
    }

    private static function framework(): ?string
    {
        return SymfonyApp::vendor();
    }
}
