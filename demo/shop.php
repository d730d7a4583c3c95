<?php

/*
 * The shop: an HTTP endpoint, served by `php -S` with the extension loaded. It never waits for a job; it only says
 * what is to happen later, and takes that back when a customer pays.
 *
 *   POST /orders                 {"order": 42, "pay_within": 1800}   opens an order that closes itself unless paid
 *   POST /orders/42/pay          it is paid: do not close it
 *   GET  /failed                 what went wrong for good, and why
 *   POST /failed/{id}/requeue    try that one again
 */

declare(strict_types=1);

use Duly\Client;
use Duly\RetryPolicy;

$db = new PDO('sqlite:' . getenv('DEMO_DB'), options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$db->exec('PRAGMA busy_timeout = 5000');

// Without a URL the client takes DULY_URL from the environment.
$queue = (new Client())->queue('orders');

$request = $_SERVER['REQUEST_METHOD'] . ' ' . parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$body = json_decode(file_get_contents('php://input') ?: '{}', true, flags: JSON_THROW_ON_ERROR);
$answer = null;

if ($request === 'POST /orders') {
    $order = $body['order'];
    $db->prepare('INSERT INTO orders (number, state, trouble, token) VALUES (?, ?, ?, 0)')
        ->execute([$order, 'open', $body['trouble'] ?? '']);
    $answer = ['job' => $queue->push(
        ['order_id' => $order],
        name: 'order.close',
        delay: $body['pay_within'],
        key: "close:$order",          // so that we can find the job again without remembering its id
        maxRetries: 2,
        retry: RetryPolicy::list([0.4, 0.8]),
    )];
} elseif (preg_match('#^POST /orders/(\d+)/pay$#', $request, $match)) {
    $db->prepare("UPDATE orders SET state = 'paid' WHERE number = ? AND state = 'open'")->execute([$match[1]]);
    $answer = ['cancelled' => $queue->cancel(key: "close:{$match[1]}") !== null];
} elseif ($request === 'GET /failed') {
    $answer = [];
    foreach ($queue->peek('failed') as $job) {
        $answer[] = ['job' => $job->id, 'error' => $job->error, 'attempts' => $job->attempts];
    }
} elseif (preg_match('#^POST /failed/(\w+)/requeue$#', $request, $match)) {
    $answer = ['requeued' => $queue->requeue($match[1])[0]->outcome];
}

http_response_code($answer === null ? 404 : 200);
header('Content-Type: application/json');
echo json_encode($answer, JSON_THROW_ON_ERROR), "\n";
