<?php

// What the transport stands on, of Symfony 5.4 to 7.2: SignaturesTest compares it with the transport, and with Symfony
// where that is there. A `?` marks a parameter that may be left out, `abstract` what a transport must have.

return [
    'Symfony\Component\Messenger\Transport\Receiver\ReceiverInterface' => [
        'get' => 'abstract ',
        'ack' => 'abstract envelope',
        'reject' => 'abstract envelope',
    ],
    'Symfony\Component\Messenger\Transport\Sender\SenderInterface' => ['send' => 'abstract envelope'],
    'Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface' => ['getMessageCount' => 'abstract '],
    'Symfony\Component\Messenger\Transport\TransportFactoryInterface' => [
        'createTransport' => 'abstract dsn, options, serializer',
        'supports' => 'abstract dsn, options',
    ],
    'Symfony\Component\Messenger\Transport\Serialization\SerializerInterface' => [
        'decode' => 'abstract encodedEnvelope',
        'encode' => 'abstract envelope',
    ],
    'Symfony\Component\Messenger\Envelope' => [
        'with' => 'stamps?',
        'withoutAll' => 'stampFqcn',
        'last' => 'stampFqcn',
        'getMessage' => '',
    ],
    'Symfony\Component\Messenger\Stamp\DelayStamp' => ['getDelay' => ''],
    'Symfony\Component\Messenger\Stamp\ErrorDetailsStamp' => ['getExceptionClass' => '', 'getExceptionMessage' => ''],
    'Symfony\Component\Messenger\Stamp\RedeliveryStamp' => ['getRetryCountFromEnvelope' => 'envelope'],
    'Symfony\Component\Messenger\Worker' => ['run' => 'options?', 'stop' => '', 'getMetadata' => ''],
    'Symfony\Component\Messenger\WorkerMetadata' => ['getTransportNames' => ''],
];
