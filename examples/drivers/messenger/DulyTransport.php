<?php

declare(strict_types=1);

namespace App\Messenger;

use Duly\Client;
use Duly\Consumer;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\LeaseLostException;
use Duly\Job;
use Duly\Queue;
use Psr\Log\LoggerInterface;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\ErrorDetailsStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;
use Symfony\Component\Messenger\Worker;

/**
 * A transport of Symfony's Messenger: its worker handles the messages, duly keeps and gives them.
 *
 * Messenger retries by a new message with a delay. What duly counts are runs that told nobody how they ended: their
 * process died, or took longer than the timeout.
 */
final class DulyTransport implements TransportInterface, MessageCountAwareInterface
{
    /** What may be used to say that all memory was used up. */
    private const LAST_BYTES = 16 << 20;
    /** The exit code with which PHP ends for an exception. */
    private const UNCAUGHT = 255;

    private Queue $queue;
    private ?Consumer $consumer = null;
    /** The process that the consumer is of. */
    private int $owner = 0;
    /** How many transports of this process were asked for messages. */
    private static int $asked = 0;
    /** How many had none, in a row. One waits only if all others had none: they may have more. */
    private static int $empty = 0;
    /** @var array<string, Job> those that were given and are not settled, by their ids */
    private array $out = [];

    /** @param array<string, mixed> $options see `DulyTransportFactory` */
    public function __construct(
        private Client $client,
        private SerializerInterface $serializer,
        private array $options,
        private ?LoggerInterface $logger = null,
    ) {
        foreach (['lease', 'timeout', 'prefetch', 'concurrency', 'wait', 'max_lost_runs'] as $name) {
            if (is_numeric($options[$name] ?? null)) {
                $this->options[$name] = +$options[$name]; // what comes from the environment is text
            }
        }
        $this->queue = $client->queue($options['queue']);
    }

    public function send(Envelope $envelope): Envelope
    {
        $received = $envelope->last(DulyReceivedStamp::class);
        $received === null || $this->endIfForked($received->owner); // its parent's to retry
        if ($received?->job->interrupted !== null) {
            // It runs elsewhere, or was cancelled: a retry, or a copy in the failure transport, would be one too many.
            $received->isHandedOn = true;
            $job = $received->job;
            $why = "its run is over ({$job->interrupted})";
            $this->logger?->warning("duly: job '{$job->id}' of queue '{$job->queue->name}' is not sent again: {$why}");
            return $envelope;
        }
        $delay = $envelope->last(DelayStamp::class)?->getDelay() ?? 0;
        $name = $envelope->getMessage()::class;
        $options = [
            'delay' => max(0, $delay) / 1000,
            'maxRetries' => $this->options['max_lost_runs'] ?? 3,
            'retry' => \Duly\RetryPolicy::fixed(0),
        ];
        $options += strlen($name) <= 128 ? ['name' => $name] : [];
        if ($received !== null) {
            $envelope = $envelope->withoutAll(TransportMessageIdStamp::class); // that of the old one
            // A process that dies between this and `reject` runs the message again, and sends the same retry again.
            $id = strtok($received->job->id, '~') . '~' . RedeliveryStamp::getRetryCountFromEnvelope($envelope);
            $options += $id === $received->job->id ? [] : ['id' => $id, 'onDuplicate' => 'keep'];
        }
        try {
            $id = $this->queue->push($this->serializer->encode($envelope), ...$options);
        } catch (ExceptionInterface $error) {
            throw new TransportException($error->getMessage(), 0, $error);
        }
        if ($received !== null) {
            $received->isHandedOn = true;
        }
        return $envelope->with(new TransportMessageIdStamp($id));
    }

    /** Waits for a message, so that the worker need not sleep. */
    public function get(): iterable
    {
        try {
            $consumer = $this->consumer();
            $isPatient = $this->isPatient();
            $job = $consumer->next($isPatient ? $this->options['wait'] ?? 1.0 : 0.0);
        } catch (ExceptionInterface $error) {
            // It is over for this one, as by a wrong password. The next call makes another.
            $this->consumer = null;
            throw new TransportException($error->getMessage(), 0, $error);
        }
        // Who has waited in vain is the first of them, so that they wait in turn.
        self::$empty = match (true) {
            $job !== null => 0,
            $isPatient => 1,
            default => self::$empty + 1,
        };
        $job === null && $this->report($consumer);
        return $job === null ? [] : [$this->envelopeOf($job)];
    }

    public function ack(Envelope $envelope): void
    {
        $this->settle($this->jobOf($envelope), static fn (Job $job) => $job->ack());
    }

    /** Messenger gives up on a message, or has sent it again. Only what it has not sent anywhere is kept as failed. */
    public function reject(Envelope $envelope): void
    {
        if ($envelope->last(DulyReceivedStamp::class)?->isHandedOn === true) {
            $this->ack($envelope);
            return;
        }
        $details = $envelope->last(ErrorDetailsStamp::class);
        $why = $details === null
            ? 'it was rejected'
            : "{$details->getExceptionClass()}: {$details->getExceptionMessage()}";
        $this->settle($this->jobOf($envelope), static fn (Job $job) => $job->fail($why, final: true));
    }

    public function getMessageCount(): int
    {
        $counts = $this->queue->counts();
        return $counts->ready + $counts->delayed;
    }

    /** Whether it waits for a message: only if no other transport may have one. */
    private function isPatient(): bool
    {
        $calls = debug_backtrace(DEBUG_BACKTRACE_PROVIDE_OBJECT | DEBUG_BACKTRACE_IGNORE_ARGS, 3);
        $worker = $calls[2]['object'] ?? null;
        $names = $worker instanceof Worker ? $worker->getMetadata()->getTransportNames() : [];
        // What those of another kind have is not known here. The last one is asked when all others had none.
        return count($names) > self::$asked
            ? end($names) === ($this->options['transport_name'] ?? null)
            : self::$empty >= self::$asked - 1;
    }

    private function envelopeOf(Job $job): Envelope
    {
        $this->out[$job->id] = $job;
        try {
            $data = $job->data();
            $envelope = is_array($data) ? $this->serializer->decode($data)
                : throw new MessageDecodingFailedException('its data is no message: it is no JSON object');
            return $envelope->with(new DulyReceivedStamp($job), new TransportMessageIdStamp($job->id));
        } catch (\Throwable $error) {
            // A serializer may also fail otherwise, as by a TypeError. What it cannot read would end each worker.
            $failed = $error instanceof MessageDecodingFailedException ? $error
                : new MessageDecodingFailedException("it cannot be decoded: {$error->getMessage()}", 0, $error);
            $this->settle($job, static fn (Job $job) => $job->fail($failed, final: true));
            throw $failed;
        }
    }

    private function jobOf(Envelope $envelope): Job
    {
        $received = $envelope->last(DulyReceivedStamp::class)
            ?? throw new LogicException('this message was not received from duly');
        $this->endIfForked($received->owner);
        return $received->job;
    }

    /** A process that a handler has forked, and that comes back from it: the messages are its parent's. */
    private function endIfForked(int $owner): void
    {
        if ($owner !== getmypid()) {
            $this->logger?->error('duly: a process that a handler has forked ends: it came back from it');
            exit(self::UNCAUGHT);
        }
    }

    private function settle(Job $job, \Closure $call): void
    {
        unset($this->out[$job->id]);
        try {
            $call($job);
        } catch (LeaseLostException $error) {
            // Its time is over, or it was cancelled: what is true of it is decided elsewhere.
            $this->logger?->warning("duly: {$error->getMessage()}");
        }
    }

    private function consumer(): Consumer
    {
        $this->consumer === null || $this->endIfForked($this->owner);
        if ($this->consumer === null) {
            $known = ['lease' => 0, 'timeout' => 0, 'prefetch' => 0, 'concurrency' => 0];
            $settings = array_intersect_key($this->options, $known);
            $this->consumer = new Consumer($this->client, $this->options['queue'], ...$settings);
            if ($this->owner === 0) {
                register_shutdown_function($this->end(...));
                self::$asked++;
            }
            $this->owner = (int) getmypid();
        }
        return $this->consumer;
    }

    /** In the middle of a run this is `exit` or a fatal error. The message may do it again, so that the run counts. */
    private function end(): void
    {
        if ($this->owner !== getmypid()) {
            return; // a process that a handler has forked: its messages are its parent's
        }
        if (str_starts_with(error_get_last()['message'] ?? '', 'Allowed memory size')) {
            ini_set('memory_limit', (string) (memory_get_usage(true) + self::LAST_BYTES));
        }
        foreach ($this->out as $job) {
            $this->settle($job, static fn (Job $job) => $job->fail('the process ended during its run'));
        }
        $this->consumer?->close();
        $this->consumer === null || $this->report($this->consumer); // such as what is not confirmed
    }

    private function report(Consumer $consumer): void
    {
        foreach ($consumer->events() as $event) {
            $this->logger?->log($event['level'], "duly: {$event['text']}"); // outages, lost leases
        }
    }
}
