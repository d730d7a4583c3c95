<?php

use think\facade\Route;

Route::post('orders/:order/pay', 'orders/pay');
Route::post('orders', 'orders/open');
