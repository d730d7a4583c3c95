<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Web;

/** The page in an application in PHP: by `php -S`, which lets users in by a header, and called directly. */
final class WebTest extends ServerTestCase
{
    private const HOSTILE = '<script>alert(1)</script>';
    private const ROLES = ['vera' => ['view'], 'otto' => ['view', 'operate'], 'ada' => ['view', 'operate', 'admin']];

    private ?Running $web = null;
    private int $port = 0;
    private string $mount = '/tools/duly';
    /** @var array<string, string> */
    private array $cookies = [];

    protected function tearDown(): void
    {
        $this->web?->kill();
    }

    public function testEveryPageLiesInTheFolderOfItsMount(): void
    {
        $this->fill();
        $this->serve();
        self::assertSame('./duly/overview', $this->ask('ada', 'GET', '')['location']);
        $seen = [];
        $left = ['/'];
        while ($left !== []) {
            $page = array_pop($left);
            if (isset($seen[$page])) {
                continue;
            }
            $seen[$page] = true;
            $answer = $this->ask('ada', 'GET', $page);
            self::assertSame(200, $answer['status'], $page);
            self::assertDoesNotMatchRegularExpression('~(href|src|action)="/~', $answer['body'], $page);
            if (str_starts_with($page, '/package')) {
                continue;
            }
            self::assertStringNotContainsString(self::HOSTILE, $answer['body'], $page);
            preg_match_all('~<a [^>]*href="([^"#]+)"~', $answer['body'], $links);
            foreach ($links[1] as $link) {
                $left[] = '/' . html_entity_decode($link, ENT_QUOTES);
            }
        }
        self::assertGreaterThan(20, count($seen));
        $script = '~src="(script[^"]+)"~';
        self::assertSame(1, preg_match($script, $this->ask('ada', 'GET', '/')['body'], $asset));
        self::assertStringStartsWith('max-age', $this->ask('ada', 'GET', "/{$asset[1]}")['cache-control']);
        foreach (['/metrics', '/sign-in', '/nothing', '/a/b'] as $path) {
            self::assertSame(404, $this->ask('ada', 'GET', $path)['status'], $path);
        }
    }

    public function testItIsClosedToWhoeverMayNothing(): void
    {
        $this->queue->push(1);
        $this->serve();
        foreach (['', '/', '/queue?queue=q&parts=0', '/style.css'] as $path) {
            $answer = $this->ask('nobody', 'GET', $path);
            self::assertSame([403, ''], [$answer['status'], $answer['set-cookie'] ?? ''], $path);
        }
        self::assertSame(403, $this->send('nobody', 'pause', ['more' => str_repeat('x', 65536)])['status']);
        $json = ['Content-Type: application/json'];
        self::assertSame(403, $this->ask('nobody', 'POST', '/act-pause', '{}', $json)['status']);
        $this->thrownBy(\ArgumentCountError::class, fn () => new Web($this->client));
        foreach ([1, null, 'no'] as $no) {
            $page = new Web($this->client, can: static fn (): mixed => $no);
            $error = $this->thrownBy(InvalidArgumentException::class, static fn () => $page->handle('GET', '/'));
            self::assertStringContainsString("can must give true or false for 'view'", $error->getMessage());
        }
    }

    public function testAFormDoesWhatItsUserMayDo(): void
    {
        $this->fill();
        $this->serve();
        self::assertStringNotContainsString('act-', $this->ask('vera', 'GET', '/queue?queue=q')['body']);
        self::assertStringContainsString('ask-purge', $this->ask('ada', 'GET', '/queue?queue=q')['body']);
        $page = $this->ask('otto', 'GET', '/queue?queue=q');
        self::assertStringNotContainsString('ask-purge', $page['body']);
        self::assertSame(403, $this->ask('otto', 'GET', '/ask-purge?queue=q&parts=0&state=ready')['status']);
        $pause = $this->form('otto', '/queue?queue=q', 'pause');
        $purge = $this->form('ada', '/ask-purge?queue=q&state=ready', 'purge');
        self::assertSame(403, $this->send('vera', 'pause', $pause)['status']);
        self::assertSame(403, $this->send('otto', 'purge', $purge)['status']);
        self::assertSame([false, 1], [$this->queue->counts()->paused, $this->queue->counts()->ready]);
        self::assertSame(303, $this->send('otto', 'pause', $pause)['status']);
        self::assertSame(303, $this->send('ada', 'purge', $purge)['status']);
        self::assertSame([true, 0], [$this->queue->counts()->paused, $this->queue->counts()->ready]);
    }

    public function testAFormOfAnotherPageDoesNothing(): void
    {
        $this->queue->push(1);
        $this->serve();
        $form = $this->form('ada', '/queue?queue=q', 'pause');
        self::assertSame(403, $this->send('ada', 'pause', $form, ['Sec-Fetch-Site: cross-site'])['status']);
        $foreign = ['Sec-Fetch-Site: same-origin', 'Origin: http://evil.example'];
        self::assertSame(403, $this->send('ada', 'pause', $form, $foreign)['status']);
        self::assertSame(403, $this->send('ada', 'pause', ['form_token' => str_repeat('0', 48)] + $form)['status']);
        $cookies = $this->cookies;
        $this->cookies = [];
        self::assertSame(403, $this->send('ada', 'pause', $form)['status']);
        $this->cookies = $cookies;
        self::assertSame(413, $this->send('ada', 'pause', $form + ['more' => str_repeat('x', 65536)])['status']);
        self::assertFalse($this->queue->counts()->paused);
        self::assertSame(303, $this->send('ada', 'pause', $form)['status']);
    }

    public function testAFormActsOnceAlsoInAnotherProcess(): void
    {
        $this->queue->schedules->put('tick', new \Duly\Schedule(new \Duly\NewJob(1), every: 3600));
        $this->serve();
        $form = $this->form('ada', '/schedule?queue=q&name=tick', 'schedule-run');
        self::assertSame(303, $this->send('ada', 'schedule-run', $form)['status']);
        // Another one takes its place.
        $this->serve();
        $again = $this->send('ada', 'schedule-run', $form);
        self::assertSame(409, $again['status']);
        self::assertStringContainsString('This form was sent before', $again['body']);
        self::assertSame(1, $this->queue->counts()->ready);
    }

    public function testAQuestionIsAnsweredInAnotherProcessAndItsNoticeSaidOnce(): void
    {
        foreach (range(0, 9) as $number) {
            $this->queue->push($number, id: "订 {$number}", priority: $number % 2, delay: 900);
        }
        $this->serve();
        $page = '/ask-cancel-matching?queue=q&state=delayed&priority=1';
        $form = $this->form('ada', $page, 'cancel-matching');
        $this->queue->push(1, id: 'later', priority: 1, delay: 900);
        $this->serve();
        $answer = $this->send('ada', 'cancel-matching', $form);
        self::assertSame(303, $answer['status']);
        self::assertSame(6, $this->queue->counts()->delayed);
        self::assertNotNull($this->queue->find('later'));
        $next = "/{$answer['location']}";
        self::assertStringContainsString('5 jobs are removed.', $this->ask('ada', 'GET', $next)['body']);
        self::assertStringNotContainsString('class="notice"', $this->ask('ada', 'GET', $next)['body']);
    }

    public function testDataIsHiddenFromThoseWhoMayOnlyLook(): void
    {
        $this->queue->push(['secret' => '4711'], id: 'one', headers: ['tenant' => '0815']);
        foreach (['vera' => false, 'otto' => true] as $user => $isShown) {
            $page = $this->page(hideData: true);
            $answer = $page->handle('GET', '/job?queue=q&parts=0&id=one', who: $user);
            self::assertSame(200, $answer['status']);
            self::assertSame($isShown, str_contains($answer['body'], '4711'));
            self::assertSame($isShown, str_contains($answer['body'], '0815'));
            $package = $page->handle('GET', '/package?queue=q&parts=0&id=one', who: $user);
            self::assertSame($isShown ? 200 : 403, $package['status']);
        }
    }

    public function testEachActionIsALineWithTheNameOfTheUser(): void
    {
        $this->queue->push(1);
        $log = new RecordingLogger();
        $page = $this->page(log: $log->line(...), logger: $log);
        $shown = $page->handle('GET', '/x/queue?queue=q&parts=0', '/x', ['Host' => 'h'], who: 'otto');
        $form = self::formIn($shown['body'], 'pause');
        self::assertIsArray($form);
        $headers = [
            'host' => ['h'],
            'Origin' => 'https://h',
            'Cookie' => strtok($shown['headers']['set-cookie'][0], ';'),
            'Content-Type' => 'application/x-www-form-urlencoded',
        ];
        $body = http_build_query($form);
        $uri = '/x/act-pause';
        $sent = $page->handle('POST', $uri, '/x', $headers, $body, 'otto', peer: '::1', secure: true);
        self::assertSame([303, ['queue?queue=q&parts=0']], [$sent['status'], $sent['headers']['location']]);
        self::assertStringEndsWith('; Secure', $sent['headers']['set-cookie'][0]);
        $line = 'user otto from ::1: pause queue=q parts=0: done';
        self::assertSame([[['info', $line, []]], [$line]], [$log->records, $log->lines]);
    }

    public function testWhatLiesElsewhereIsNoPage(): void
    {
        $this->queue->push(1);
        $this->serve();
        $this->mount = '';
        foreach (['/tools/d%75ly/', '/t%6Fols%2Fduly/queue?queue=q&parts=0'] as $path) {
            self::assertSame(200, $this->ask('ada', 'GET', $path)['status'], $path);
        }
        foreach (['//tools/duly/', '/tools/dulyer', '/', '/%FF'] as $path) {
            $answer = $this->ask('ada', 'GET', $path);
            self::assertSame(404, $answer['status'], $path);
            self::assertStringContainsString("the page lies in '/tools/duly'", $answer['body']);
            self::assertSame(403, $this->ask('nobody', 'GET', $path)['status'], $path);
        }
        $page = $this->page();
        self::assertSame(404, $page->handle('GET', 'http://h/x/', '/x', who: 'otto')['status']);
        foreach (['/订单', '/%E8%AE%A2%E5%8D%95'] as $mount) {
            $answer = $page->handle('GET', '/%E8%AE%A2%E5%8D%95', $mount, who: 'otto');
            self::assertSame(['./%E8%AE%A2%E5%8D%95/overview'], $answer['headers']['location'] ?? null, $mount);
        }
    }

    public function testTheLineOfAWebServerIsInItsLog(): void
    {
        $this->queue->push(1);
        $this->serve();
        $this->send('ada', 'pause', $this->form('ada', '/queue?queue=q', 'pause'));
        $this->web?->hear('user ada from 127.0.0.1: pause queue=q parts=0: done');
        self::assertTrue($this->queue->counts()->paused);
    }

    /** @param mixed ...$settings of the page */
    private function page(mixed ...$settings): Web
    {
        $can = static fn (string $action, mixed $who): bool => in_array($action, self::ROLES[$who] ?? [], true);
        return new Web($this->client, $can, ...$settings);
    }

    private function fill(): void
    {
        $this->queue->push(['text' => self::HOSTILE], id: self::HOSTILE, name: self::HOSTILE);
        $this->queue->push(1, id: 'later', key: 'k', delay: 900);
    }

    public function testTheExampleLetsInWhomTheSessionOfItsApplicationKnows(): void
    {
        $this->mount = '/duly';
        $folder = $this->server->folder();
        $user = ['name' => 'ada', 'roles' => ['view', 'operate']];
        file_put_contents("{$folder}/sess_known", 'user|' . serialize($user));
        $this->start(Pages::code('../operate.md', '->serve('), '-d', "session.save_path={$folder}");
        self::assertSame(403, $this->ask('', 'GET', '/')['status']);
        $this->cookies['PHPSESSID'] = 'known';
        $answer = $this->ask('', 'GET', '/');
        self::assertSame(200, $answer['status']);
        self::assertStringContainsString('href="overview"', $answer['body']);
        self::assertSame(1, preg_match('/^[0-9a-f]{48}$/', $this->cookies['duly_web']));
    }

    /** Starts the application, or starts it anew. */
    private function serve(): void
    {
        $folder = realpath(__DIR__ . '/../php-binding/php/src');
        $roles = var_export(self::ROLES, true);
        $this->start("
            require '{$folder}/Web.php';
            \$client = new Duly\\Client('{$this->server->url()}', '{$this->prefix}');
            \$can = fn (string \$action, string \$who): bool => in_array(\$action, ({$roles})[\$who] ?? [], true);
            (new Duly\\Web(\$client, \$can))->serve('/tools/duly', \$_SERVER['HTTP_X_USER']);
        ");
    }

    private function start(string $code, string ...$options): void
    {
        $this->web?->kill();
        $router = $this->server->folder() . '/router.php';
        file_put_contents($router, "<?php\n{$code}");
        $socket = stream_socket_server('tcp://127.0.0.1:0') ?: self::fail('there is no free port');
        $this->port = (int) substr((string) strrchr((string) stream_socket_get_name($socket, false), ':'), 1);
        fclose($socket);
        $program = ['env', "DULY_URL={$this->server->url()}", PHP_BINARY, ...array_values($options)];
        $this->web = new Running([...$program, '-S', "127.0.0.1:{$this->port}", $router], $this->server->folder());
        $this->web->hear("127.0.0.1:{$this->port}) started");
    }

    /**
     * @param list<string> $headers
     * @return array<string, mixed> the status, the body, and headers by their names
     */
    private function ask(string $user, string $method, string $path, string $body = '', array $headers = []): array
    {
        $cookies = http_build_query($this->cookies, '', '; ');
        $headers = ["X-User: {$user}", "Cookie: {$cookies}", 'Connection: close', ...$headers];
        $options = ['method' => $method, 'header' => $headers, 'content' => $body, 'ignore_errors' => true];
        $options += ['follow_location' => 0, 'timeout' => 30];
        $url = "http://127.0.0.1:{$this->port}{$this->mount}{$path}";
        $text = file_get_contents($url, false, stream_context_create(['http' => $options]));
        $answer = ['status' => (int) explode(' ', $http_response_header[0])[1], 'body' => (string) $text];
        foreach (array_slice($http_response_header, 1) as $line) {
            [$name, $value] = explode(': ', $line, 2) + [1 => ''];
            $answer[strtolower($name)] = $value;
            if (strtolower($name) === 'set-cookie') {
                [$cookie, $text] = explode('=', (string) strtok($value, ';'), 2);
                $this->cookies[$cookie] = $text;
            }
        }
        $location = $answer['location'] ?? '';
        // An address without the number of partitions leads to one with it.
        if ($method === 'GET' && $answer['status'] === 303 && str_contains($location, 'parts=0') && $path !== '') {
            return $this->ask($user, 'GET', "/{$location}");
        }
        return $answer;
    }

    /** @return array<string, string> the fields of that form */
    private function form(string $user, string $page, string $act): array
    {
        $body = $this->ask($user, 'GET', $page)['body'];
        return self::formIn($body, $act) ?? self::fail("{$page} has no form that does {$act}: {$body}");
    }

    /** @return ?array<string, string> */
    private static function formIn(string $page, string $act): ?array
    {
        if (preg_match("~<form method=\"post\" action=\"act-{$act}\">(.*?)</form>~s", $page, $form) !== 1) {
            return null;
        }
        preg_match_all('~<input type="hidden" name="([^"]*)" value="([^"]*)"~', $form[1], $fields);
        $values = array_map(static fn (string $value): string => html_entity_decode($value, ENT_QUOTES), $fields[2]);
        return array_combine($fields[1], $values);
    }

    /**
     * @param array<string, string> $form
     * @param list<string> $from what a browser says of where it comes from
     * @return array<string, mixed>
     */
    private function send(
        string $user,
        string $act,
        array $form,
        array $from = ['Sec-Fetch-Site: same-origin'],
    ): array {
        $headers = ['Content-Type: application/x-www-form-urlencoded', ...$from];
        return $this->ask($user, 'POST', "/act-{$act}", http_build_query($form), $headers);
    }
}
