<?php

/**
 * Single pushes from PHP, one call after the other, through duly and through the extension redis: prints one JSON
 * object a figure. `phpredis.php <url of a server on TCP>`
 *
 * The ways take turns, a thousand calls each, so that a busy machine slows all of them.
 */

declare(strict_types=1);

const ROUNDS = 9;
const CALLS = 1_000;

$address = parse_url($argv[1]);
$redis = new Redis();
$redis->connect($address['host'], $address['port']);
$queue = (new Duly\Client($argv[1]))->queue('php');
$data = ['order_id' => 42, 'to' => 'someone@example.org', 'body' => str_repeat('x', 147)];

$ways = [
    'duly push' => static fn () => $queue->push($data),
    'duly push, delayed' => static fn () => $queue->push($data, delay: 1800),
    // A list and a sorted set of one's own: what a queue of few lines does.
    'phpredis rPush' => static fn () => $redis->rPush('list', json_encode($data)),
    'phpredis zAdd' => static fn () => $redis->zAdd('set', time() + 1800, json_encode(['id' => uniqid()] + $data)),
    // What the Redis driver of Laravel sends for a push: this script, whole.
    'phpredis eval, two rpush' => static fn () => $redis->eval(
        "redis.call('rpush', KEYS[1], ARGV[1])\nredis.call('rpush', KEYS[2], 1)",
        ['queues:default', 'queues:default:notify', json_encode($data)],
        2,
    ),
];
$took = [];
for ($round = 0; $round <= ROUNDS; $round++) {
    foreach ($ways as $way => $push) {
        $started = hrtime(true);
        for ($i = 0; $i < CALLS; $i++) {
            $push();
        }
        if ($round > 0) { // the first only warms up
            $took[$way][] = (hrtime(true) - $started) / CALLS / 1e3;
        }
    }
}
foreach ($took as $way => $us) {
    sort($us);
    echo json_encode(['way' => $way, 'us' => $us[intdiv(ROUNDS, 2)], 'from' => $us[0], 'to' => $us[ROUNDS - 1]]), "\n";
}
