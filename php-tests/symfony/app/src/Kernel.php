<?php

declare(strict_types=1);

namespace App;

use App\Messenger\DulyTransportFactory;
use Symfony\Component\Console\Application;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Redis\Transport\RedisTransportFactory;
use Symfony\Component\Messenger\Command\ConsumeMessagesCommand;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\EventListener\AddErrorDetailsStampListener;
use Symfony\Component\Messenger\EventListener\DispatchPcntlSignalListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\EventListener\StopWorkerOnSigtermSignalListener;
use Symfony\Component\Messenger\Handler\HandlerDescriptor;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\SendMessageMiddleware;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\RoutableMessageBus;
use Symfony\Component\Messenger\Stamp\BusNameStamp;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Transport\Sender\SendersLocator;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** What `messenger.yaml` would say. */
final class Kernel
{
    private Services $transports;
    private MessageBus $bus;

    /** @param array<string, string> $settings */
    public function __construct(array $settings)
    {
        $duly = ['url' => $settings['url'], 'prefix' => $settings['prefix'], 'lease' => 1];
        $serializer = new PhpSerializer();
        $factory = new DulyTransportFactory(new Log(dirname(__DIR__) . '/runtime/log'));
        $make = static fn (string $name, string $queue, array $options = []): \Closure
            => static fn () => $factory->createTransport(
                "duly://{$queue}",
                $options + ['transport_name' => $name] + $duly,
                $serializer,
            );
        $socket = substr($settings['url'], strlen('unix://'));
        $this->transports = new Services([
            'orders' => $make('orders', 'default'),
            'timed' => $make('timed', 'default', ['timeout' => 1]),
            'kills' => $make('kills', 'default', ['lease' => 2]),
            'batches' => $make('batches', 'batches', ['concurrency' => 10]),
            'kept' => $make('kept', 'kept'),
            'patient' => $make('patient', 'patient', ['wait' => 3600]),
            'failed' => $make('failed', 'failed'),
            'redis' => static fn () => (new RedisTransportFactory())->createTransport(
                "redis://{$socket}",
                ['stream' => 'l:messages', 'consumer' => 'c' . getmypid(), 'delete_after_ack' => true],
                $serializer,
            ),
        ]);
        $received = new Received();
        $senders = new SendersLocator([Close::class => ['orders']], $this->transports);
        $handlers = new HandlersLocator([
            Close::class => [new HandlerDescriptor(new CloseHandler())],
            Watched::class => [new HandlerDescriptor(new WatchedHandler($settings, $received))],
            Nothing::class => [new HandlerDescriptor(new NothingHandler())],
            Line::class => [new HandlerDescriptor(new LinesHandler())],
        ]);
        $this->bus = new MessageBus([
            $received,
            new SendMessageMiddleware($senders),
            new HandleMessageMiddleware($handlers),
        ]);
    }

    public function transport(string $name): TransportInterface
    {
        return $this->transports->get($name);
    }

    public function dispatch(object $message, int $delayMs = 0): Envelope
    {
        return $this->bus->dispatch($message, $delayMs === 0 ? [] : [new DelayStamp($delayMs)]);
    }

    /** Sends it to a transport, whatever its class is. */
    public function send(object $message, string $transport): Envelope
    {
        return $this->transport($transport)->send(new Envelope($message, [new BusNameStamp('bus')]));
    }

    public function console(): Application
    {
        $retries = new Services([
            'orders' => static fn () => new MultiplierRetryStrategy(2, 200, 1),
            'kills' => static fn () => new MultiplierRetryStrategy(2, 200, 1),
            'kept' => static fn () => new MultiplierRetryStrategy(0),
        ]);
        $failures = new Services(['orders' => fn () => $this->transport('failed')]);
        $events = new EventDispatcher();
        $events->addSubscriber(new AddErrorDetailsStampListener());
        $events->addSubscriber(new SendFailedMessageForRetryListener($this->transports, $retries));
        $events->addSubscriber(new SendFailedMessageToFailureTransportListener($failures));
        $events->addSubscriber(new DispatchPcntlSignalListener());
        if (class_exists(StopWorkerOnSigtermSignalListener::class)) {
            $events->addSubscriber(new StopWorkerOnSigtermSignalListener()); // in newer versions the command does it
        }
        $bus = new RoutableMessageBus(new Services(['bus' => fn () => $this->bus]), $this->bus);
        $application = new Application();
        $application->add(new ConsumeMessagesCommand($bus, $this->transports, $events));
        return $application;
    }
}
