<?php

declare(strict_types=1);

namespace app\controller;

use think\facade\Db;
use think\Request;
use think\response\Json;

/**
 * The shop as a controller of ThinkPHP. A worker in Python closes its orders.
 *
 *   POST /orders           {"order": 42, "pay_within": 1800}   opens an order that closes itself unless paid
 *   POST /orders/42/pay    it is paid: do not close it
 */
final class Orders
{
    public function open(Request $request): Json
    {
        ['order' => $order, 'pay_within' => $seconds] = $request->post();
        $id = null;
        duly()->transaction(function () use ($order, $seconds, &$id): void {
            Db::table('orders')->insert(['number' => $order, 'state' => 'open', 'trouble' => '', 'token' => 0]);
            // Behind the commit: otherwise the job might run before the order is there.
            duly()->afterCommit(function () use ($order, $seconds, &$id): void {
                $job = ['order_id' => $order];
                $id = duly('orders')->push($job, name: 'order.close', delay: $seconds, key: "close:{$order}");
            });
        });
        return json(['job' => $id]);
    }

    public function pay(int $order): Json
    {
        Db::table('orders')->where('number', $order)->where('state', 'open')->update(['state' => 'paid']);
        return json(['cancelled' => duly('orders')->cancel(key: "close:{$order}") !== null]);
    }
}
