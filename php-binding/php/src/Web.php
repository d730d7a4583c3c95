<?php

declare(strict_types=1);

namespace Duly;

// For programs without an autoloader, for which this file is the only one to name.
// phpcs:disable PSR1.Files.SideEffects
foreach (['Failures', 'Log'] as $file) {
    // An autoloader may have loaded it under another path.
    class_exists("Duly\\{$file}", false) || require_once __DIR__ . "/{$file}.php";
}

/**
 * The page of `duly web` in a web application, behind the application's own login.
 *
 * Nothing of it is kept in memory: any process may answer any request.
 */
final class Web
{
    private const ACTIONS = ['view', 'operate', 'admin'];

    private WebEngine $engine;
    /** @var callable(string, mixed): bool */
    private $can;
    /** @var ?callable(mixed): ?string */
    private $user;
    private Log $log;

    /**
     * @param Client $client whose queues are shown. The page has connections of its own, and waits for the server for
     *     3 s at the most
     * @param callable(string, mixed): bool $can says whether the user may do this: `view`; `operate`, which is to
     *     pause and resume, run jobs again or at another time, and set limits; `admin`, which is to cancel, purge and
     *     delete. The other argument is `who` of `handle`
     * @param ?callable(mixed): ?string $user gives the name of the user for the log. Default: a `who` that is a string
     * @param bool $hideData hides data, headers and results of jobs from those who may only `view`. Default: false
     * @param ?callable(string, string): void $log gets a line for each action, and its level. Default: stderr or
     *     PHP's error log, unless there is a logger
     * @param ?object $logger a PSR-3 logger, which gets the same lines
     *
     * @throws Exception\InvalidArgumentException
     * @throws Exception\UnsupportedException without the extension `duly_console`
     */
    public function __construct(
        Client $client,
        callable $can,
        ?callable $user = null,
        bool $hideData = false,
        ?callable $log = null,
        ?object $logger = null,
    ) {
        if (!class_exists(WebEngine::class, false)) {
            throw new Exception\UnsupportedException(
                'the page needs the PHP extension duly_console, which is not loaded: '
                    . 'add extension=duly_console.so to php.ini',
            );
        }
        $this->engine = new WebEngine($client, $hideData);
        $this->can = $can;
        $this->user = $user ?? static fn (mixed $who): ?string => is_string($who) ? $who : null;
        $this->log = new Log($log, $logger);
    }

    /**
     * Answers one request.
     *
     * @param string $method such as `GET`
     * @param string $uri the path that was asked for, and the query
     * @param string $mount what the path begins with: where the page lies, such as `/duly`; '' if at the root. Any
     *     other path gets status 404
     * @param array<string, string|list<string>> $headers of the request
     * @param string $body of the request; more than 64 KiB are refused
     * @param mixed $who the user or the request, for `can` and `user`
     * @param string $peer the address of the browser, for the log
     * @param bool $secure whether the browser speaks HTTPS: then cookies are for that alone. Default: false
     *
     * @return array{status: int, headers: array<string, list<string>>, body: string}
     *
     * @throws Exception\InvalidArgumentException if `can` gives no bool
     */
    public function handle(
        string $method,
        string $uri,
        string $mount = '',
        #[\SensitiveParameter] array $headers = [],
        #[\SensitiveParameter] string $body = '',
        mixed $who = null,
        string $peer = '',
        bool $secure = false,
    ): array {
        $actions = array_values(array_filter(self::ACTIONS, fn (string $action): bool => $this->may($action, $who)));
        $pairs = [];
        foreach ($headers as $name => $values) {
            foreach ((array) $values as $value) {
                array_push($pairs, (string) $name, (string) $value);
            }
        }
        $user = ($this->user)($who);
        try {
            $answer = $this->engine->handle($method, $uri, $mount, $pairs, $body, $actions, $user, $peer, $secure);
        } finally {
            foreach ($this->engine->lines() as $line) {
                ($this->log)('info', $line);
            }
        }
        $given = [];
        foreach (array_chunk(array_slice($answer, 2), 2) as [$name, $value]) {
            $given[$name][] = $value;
        }
        return ['status' => (int) $answer[0], 'headers' => $given, 'body' => $answer[1]];
    }

    /**
     * Answers the request that PHP runs for, and sends the answer.
     *
     * @param string $mount where the page lies, such as `/duly`
     * @param mixed $who the user, for `can` and `user`
     */
    public function serve(string $mount = '', mixed $who = null): void
    {
        $secure = !in_array($_SERVER['HTTPS'] ?? 'off', ['', 'off'], true);
        // One byte more, so that what is too long is seen to be.
        $body = (string) file_get_contents('php://input', length: WebEngine::mostBodyBytes() + 1);
        $answer = $this->handle(
            $_SERVER['REQUEST_METHOD'],
            $_SERVER['REQUEST_URI'],
            $mount,
            getallheaders(),
            $body,
            $who,
            $_SERVER['REMOTE_ADDR'] ?? '',
            $secure,
        );
        http_response_code($answer['status']);
        foreach ($answer['headers'] as $name => $values) {
            foreach ($values as $value) {
                // Behind those of the application, such as the cookie of its session.
                header("{$name}: {$value}", $name !== 'set-cookie');
            }
        }
        echo $answer['body'];
    }

    private function may(string $action, mixed $who): bool
    {
        $may = ($this->can)($action, $who);
        if (!is_bool($may)) {
            $type = get_debug_type($may);
            throw new Exception\InvalidArgumentException("can must give true or false for '{$action}', not {$type}");
        }
        return $may;
    }
}
