<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Queue;
use Duly\Worker;

/** Whoever searches docs/php/troubleshooting.md for a text must find it: each of its texts is provoked here. */
final class TroubleshootingTest extends ServerTestCase
{
    private const PAGE = 'troubleshooting.md';
    private const ROOT = __DIR__ . '/..';
    private const WORKER = self::ROOT . '/php-binding/bin/duly-worker';

    private string $folder;
    /** @var list<Server> that a test has started */
    private array $servers = [];

    protected function setUp(): void
    {
        parent::setUp();
        $this->folder = sys_get_temp_dir() . '/duly-symptoms-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
    }

    protected function tearDown(): void
    {
        array_map(static fn (Server $server) => $server->close(), $this->servers);
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    /** @return iterable<string, array{string}> */
    public static function symptoms(): iterable
    {
        foreach (Symptoms::on(self::PAGE) as $text) {
            yield $text => [$text];
        }
    }

    /** @dataProvider symptoms */
    public function testItIsSaid(string $text): void
    {
        $provoke = $this->provocations()[$text] ?? null;
        self::assertNotNull($provoke, 'the page has a text that nothing here provokes');
        $said = $provoke();
        self::assertTrue(Symptoms::areSaidBy($text, $said), "it was said: {$said}");
    }

    public function testThePageHasEachTextThatIsProvokedHere(): void
    {
        self::assertSame([], array_diff(array_keys($this->provocations()), Symptoms::on(self::PAGE)));
        self::assertGreaterThan(40, count(Symptoms::on(self::PAGE)));
    }

    public function testATextThatIsNotSaidIsNoticed(): void
    {
        self::assertTrue(Symptoms::areSaidBy('a … (b)', 'well: a or (b)!'));
        self::assertFalse(Symptoms::areSaidBy('a … (b)', 'a or b'));
    }

    /** @return array<string, \Closure(): string> what is said when each is provoked */
    private function provocations(): array
    {
        return [
            ...$this->whenInstalling(),
            ...$this->ofTheServer(),
            ...$this->whenPushing(),
            ...$this->ofJobsThatDoNotRun(),
            ...$this->ofWorkers(),
        ];
    }

    /** @return array<string, \Closure(): string> */
    private function whenInstalling(): array
    {
        $module = fn (): string => (string) file_get_contents((string) realpath(self::ROOT . '/build/duly.so'));
        $api = static function (int $by): string {
            preg_match('/^PHP Extension => (\d+)$/m', self::phpinfo(), $found);
            return pack('V', (int) $found[1] + $by);
        };
        return [
            'Class "Duly\Client" not found' => fn () => $this->php('new Duly\Client();', '-n'),
            'Class "Duly\Worker" not found' => fn () => $this->php('new Duly\Worker(new Duly\Client(), ["q"]);'),
            "Unable to load dynamic library 'duly.so'" => fn () => $this->php('', '-n', '-d', 'extension=duly.so'),
            // The module that is here, as if it had been built elsewhere.
            'Module compiled with module API=…' => fn () => $this->loads(strtr($module(), [$api(0) => $api(1)])),
            'Module compiled with build ID=…' => fn () => $this->loads(strtr($module(), PHP_ZTS
                ? [',TS' => ',NT']
                : [',NTS' => ",TS\0"])),
            'libc.so.6: version …GLIBC_…not found' => function () use ($module): string {
                preg_match_all('/GLIBC_2\.\d+/', $module(), $found);
                natsort($found[0]);
                $newest = (string) end($found[0]);
                return $this->loads(strtr($module(), [$newest => substr($newest, 0, -1) . 'x']));
            },
            'cannot load this module: it must be built for the same version of PHP (and for thread safety or not)'
                => fn () => $this->configure('--with-duly-binary=/bin/true && make'),
            'cargo is missing: get Rust from https://rustup.rs, or give a finished module with --with-duly-binary=FILE'
                => fn () => $this->configure('CARGO=no'),
            'requires ext-duly … -> it is missing from your system.'
                => fn () => $this->composer(static fn (string $package): string => $package, '-n'),
            'requires ext-duly … -> it has the wrong version installed'
                => fn () => $this->composer(static fn (string $package): string => (string) preg_replace(
                    '/("ext-duly": ")[^"]+/',
                    '${1}9.9.9',
                    $package,
                )),
            'the PHP extension duly is not loaded: php -d extension=/path/to/duly.so, or php.ini'
                => fn () => self::ends([PHP_BINARY, '-n', self::WORKER, 'bootstrap.php']),
            'the PHP extension duly_console is not loaded: php -d extension=/path/to/duly_console.so, or php.ini'
                => fn () => self::ends([PHP_BINARY, '-n', dirname(self::WORKER) . '/duly', 'queues']),
            'the page needs the PHP extension duly_console, which is not loaded' => fn () => $this->php(
                'require "' . self::ROOT . '/php-binding/php/src/Web.php";'
                    . 'new Duly\Web(new Duly\Client(), fn () => true);',
                '-n',
                '-d',
                'extension=' . realpath(self::ROOT . '/build/duly.so'),
            ),
        ];
    }

    /** @return array<string, \Closure(): string> */
    private function ofTheServer(): array
    {
        $push = fn (string $url, mixed ...$options): string
            => self::thrown(fn () => (new Client($url, ...$options))->queue('q')->push(1));
        return [
            'connection to … refused: is the server running there?' => fn () => $push('redis://127.0.0.1:1'),
            'so this call was not sent (circuit breaker open' => function (): string {
                $server = $this->aServer();
                $queue = (new Client($server->url(), deadline: 0.3))->queue('q');
                $queue->push(1);
                $server->kill();
                self::thrown(fn () => $queue->push(2));
                return self::thrown(fn () => $queue->push(3));
            },
            'the server wants a password, and none was given' => fn () => $push($this->aServerWithAPassword()->url()),
            'refused the user or the password: check the URL'
                => fn () => $push($this->aServerWithAPassword()->url(), password: 'wrong'),
            'is not Redis: check host and port in the URL' => function () use ($push): string {
                $file = "{$this->folder}/symptom.php";
                file_put_contents($file, '<?php $socket = stream_socket_server("tcp://127.0.0.1:0");
                    echo stream_socket_get_name($socket, false), "\n";
                    while ($asked = stream_socket_accept($socket, 30)) {
                        fwrite($asked, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
                    }');
                $http = proc_open([PHP_BINARY, '-n', $file], [1 => ['pipe', 'w']], $pipes);
                self::assertIsResource($http);
                $said = $push('redis://' . trim((string) fgets($pipes[1])));
                proc_terminate($http);
                return $said;
            },
            'is a read-only replica: connect to the primary'
                => fn () => $push($this->aServer('--replicaof', '127.0.0.1', '1')->url(), deadline: 0.3),
            'may evict jobs when its memory is full (maxmemory-policy is …)'
                => fn () => $push($this->aServer('--maxmemory', '90mb', '--maxmemory-policy', 'allkeys-lru')->url()),
            'the server has no memory left (maxmemory): nothing was stored'
                => fn () => $push($this->aServer('--maxmemory', '1')->url()),
            'to the user with ACL SETUSER there' => function () use ($push): string {
                $this->server->command('ACL', 'SETUSER', 'weak', 'on', '>secret', '~*', '&*', '+@all', '-zadd');
                return $push($this->server->url(), username: 'weak', password: 'secret');
            },
            'the server has lost what it kept of …' => function (): string {
                $server = $this->aServer();
                return $this->php('
                    ini_set("error_log", "/dev/stdout");
                    $queue = (new Duly\Client(' . var_export($server->url(), true) . '))->queue("q");
                    $queue->push(1);
                    exec("redis-cli -s ' . $server->folder() . '/redis.sock FLUSHALL");
                    $queue->push(2);
                ');
            },
            'DULY_SERVER names …, which is not a program that can be run' => fn () => self::ends([
                'env', 'DULY_SERVER=/no/program', PHP_BINARY, '-r',
                "(new Duly\\Client('embedded:{$this->folder}/embedded'))->ping();",
            ]),
        ];
    }

    /** @return array<string, \Closure(): string> */
    private function whenPushing(): array
    {
        return [
            'another job has this id or key; choose onDuplicate keep or replace, or cancel that job first'
                => fn () => self::thrown(fn () => [$this->queue->push(1, key: 'k'), $this->queue->push(2, key: 'k')]),
            'delay must be seconds (int or float) or a DateInterval, not string'
                => fn () => self::thrown(fn () => $this->queue->push(1, delay: '5')),
            'more than the 1048576 that are allowed: store it elsewhere and push where it is, or raise maxDataBytes'
                => fn () => self::thrown(fn () => $this->queue->push(str_repeat('x', 1 << 20))),
            'the data cannot be JSON: …' => fn () => self::thrown(fn () => $this->queue->push("\xff")),
        ];
    }

    /** @return array<string, \Closure(): string> */
    private function ofJobsThatDoNotRun(): array
    {
        $why = fn (callable $before): string => (string) $this->queue->find($before($this->queue))?->why;
        $reserved = static function (Queue $queue): \Duly\Job {
            $queue->push(1);
            return $queue->reserve() ?? self::fail('there is no job');
        };
        return [
            'waits for its due time, in … s' => fn () => $why(static fn (Queue $queue) => $queue->push(1, delay: 60)),
            'waits to be retried, in … s' => fn () => $why(static function (Queue $queue) use ($reserved): string {
                $job = $reserved($queue);
                $job->fail('no');
                return $job->id;
            }),
            'is ready and waits for a worker' => fn () => $why(static fn (Queue $queue) => $queue->push(1)),
            'the queue is paused' => fn () => $why(static function (Queue $queue): string {
                $queue->pause();
                return $queue->push(1);
            }),
            'a worker has it; its lease ends in … s unless it is extended'
                => fn () => $why(static fn (Queue $queue) => $reserved($queue)->id),
            'failed … s ago after … failures: requeue or cancel it'
                => fn () => $why(static function (Queue $queue) use ($reserved): string {
                    $job = $reserved($queue);
                    $job->fail('no', final: true);
                    return $job->id;
                }),
        ];
    }

    /** @return array<string, \Closure(): string> */
    private function ofWorkers(): array
    {
        $runs = function (callable $handler, mixed ...$options): string {
            $this->queue->push(1, ...$options + ['name' => 'n', 'maxRetries' => 0]);
            $lines = [];
            $log = static function (string $line) use (&$lines): void {
                $lines[] = $line;
            };
            $worker = new Worker($this->client, ['q'], maxJobs: 1, log: $log);
            $worker->on('n', $handler)->run();
            return implode("\n", $lines) . ' ' . ($this->queue->peek('failed')[0]->error ?? '');
        };
        return [
            "this worker has no handler for the name 'order.close'"
                => fn () => $runs(static fn () => null, name: 'order.close'),
            'gives no worker: UnexpectedValueException: it must return a Duly\Worker, not int'
                => fn () => $this->bootstrap(''),
            'ended before it was ready after … s; another one starts in … s'
                => fn () => $this->bootstrap('
                    is_file(__FILE__ . ".again") && posix_kill(posix_getppid(), SIGTERM);
                    touch(__FILE__ . ".again");
                    die();
                '),
            'a worker needs at least one handler: $worker->on(name, callable)'
                => fn () => self::thrown(fn () => (new Worker($this->client, ['q']))->run()),
            'met a permanent error, which every other one would meet, too: all stop' => fn () => $this->bootstrap('
                $client = new Duly\Client(' . var_export($this->server->url(), true) . ', password: "wrong");
                return (new Duly\Worker($client, ["q"]))->on("n", fn () => null);
            '),
            'PHP has no pcntl_fork, …: one worker runs in this process, and nobody replaces it'
                => fn () => $this->bootstrap('', '-d', 'disable_functions=pcntl_fork,pcntl_waitpid'),
            'must not yield: a call makes a generator that nobody runs'
                => fn () => self::thrown(fn () => (new Worker($this->client, ['q']))->on('n', static fn () => yield 1)),
            'ran longer than its timeout' => fn () => $runs(static fn () => sleep(30), timeout: 0.1),
            'its handler ended the process' => function (): string {
                $this->queue->push(1, name: 'n', maxRetries: 0);
                $url = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
                return $this->php("
                    require '" . self::ROOT . "/php-binding/php/src/Worker.php';
                    (new Duly\Worker(new Duly\Client({$url}), ['q']))->on('n', fn () => exit(0))->run();
                ");
            },
            'the lease is lost: this job was settled already or cancelled' => fn () => self::thrown(function (): void {
                $this->queue->push(1);
                $job = $this->queue->reserve() ?? self::fail('there is no job');
                $job->ack();
                $job->ack();
            }),
            'lease ended: worker died, outcome unknown' => function (): string {
                $this->queue->push(1, name: 'n', maxRetries: 0);
                $program = $this->program('(new Duly\Worker($client, ["q"], lease: 0.2))
                    ->on("n", fn () => posix_kill(getmypid(), SIGKILL))->run();');
                $program->end();
                Server::until(fn (): bool => $this->queue->reserve() === null
                    && $this->queue->counts()->failed === 1, 'the lease does not end');
                return (string) $this->queue->peek('failed')[0]->error;
            },
        ];
    }

    private function aServerWithAPassword(): Server
    {
        $server = $this->aServer();
        $server->command('CONFIG', 'SET', 'requirepass', 'secret');
        return $server;
    }

    private function aServer(string ...$options): Server
    {
        return $this->servers[] = new Server(...$options);
    }

    /** Runs code in a PHP of its own. */
    private function php(string $code, string ...$options): string
    {
        return self::ends([PHP_BINARY, '-d', 'display_errors=1', ...$options, '-r', $code]);
    }

    /** Lets PHP load a module that was changed. */
    private function loads(string $module): string
    {
        $file = "{$this->folder}/symptom.so";
        file_put_contents($file, $module);
        return $this->php('', '-n', '-d', "extension={$file}");
    }

    /** Runs `duly-worker` with a bootstrap of this code. */
    private function bootstrap(string $code, string ...$options): string
    {
        $file = "{$this->folder}/bootstrap.php";
        file_put_contents($file, "<?php\n{$code}\n");
        return self::ends([PHP_BINARY, ...$options, self::WORKER, $file]);
    }

    /** Prepares a copy of the extension's folder as people do, and configures it. */
    private function configure(string $rest): string
    {
        $folder = "{$this->folder}/install";
        $commands = 'set -e; mkdir -p "$1/php-binding"; cp -r "$2/php-binding/ext" "$1/php-binding/";'
            . ' cp "$2/Cargo.toml" "$1"; cd "$1/php-binding/ext"; phpize; ';
        // As on a machine without Rust, or with these options.
        $commands .= $rest === 'CARGO=no' ? 'HOME=/no ac_cv_path_CARGO=no ./configure' : "./configure {$rest}";
        return self::ends(['bash', '-c', $commands, 'bash', $folder, self::ROOT]);
    }

    /** Lets Composer require the classes, whose composer.json was changed. */
    private function composer(callable $change, string ...$options): string
    {
        exec('command -v composer', $found);
        if ($found === []) {
            self::markTestSkipped('not run without Composer');
        }
        mkdir("{$this->folder}/package");
        $package = (string) file_get_contents(self::ROOT . '/php-binding/composer.json');
        file_put_contents("{$this->folder}/package/composer.json", $change($package));
        $repositories = ['packagist.org' => false, 'duly' => ['type' => 'path', 'url' => './package']];
        file_put_contents("{$this->folder}/composer.json", json_encode(['repositories' => $repositories]));
        // Those of Debian are modules, which -n takes away.
        foreach ($options === [] ? [] : ['phar', 'mbstring', 'tokenizer', 'ctype', 'iconv'] as $extension) {
            array_push($options, '-d', "extension={$extension}");
        }
        return self::ends([
            'env', 'COMPOSER_ALLOW_SUPERUSER=1', "COMPOSER_HOME={$this->folder}/home",
            PHP_BINARY, ...$options, $found[0], "--working-dir={$this->folder}", 'require', 'duly/duly:@dev',
        ]);
    }

    /** @param list<string> $command */
    private static function ends(array $command): string
    {
        exec('timeout 60 ' . implode(' ', array_map('escapeshellarg', $command)) . ' 2>&1 </dev/null', $lines);
        return implode("\n", $lines);
    }

    private static function thrown(callable $call): string
    {
        try {
            $call();
        } catch (\Throwable $error) {
            return $error->getMessage();
        }
        self::fail('nothing was thrown');
    }

    private static function phpinfo(): string
    {
        return self::ends([PHP_BINARY, '-i']);
    }
}
