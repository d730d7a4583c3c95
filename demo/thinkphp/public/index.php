<?php

// As the skeleton of ThinkPHP has it.
namespace think;

require __DIR__ . '/../vendor/autoload.php';

$http = (new App(dirname(__DIR__)))->http;
$response = $http->run();
$response->send();
$http->end($response);
