<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Running;
use Duly\Tests\Server;
use Duly\Tests\Symptoms;

/** The examples of docs/php, in an application. */
final class DocsTest extends ThinkTestCase
{
    /** Each says in a comment before it what it is. */
    private const BLOCK = '/^ *<!-- not run: needs ThinkPHP; DocsTest (.*?) -->\n( *)```php\n(.*?)^ *```$/ms';

    public function testThePageAboutThinkPhp(): void
    {
        $this->app->evaluate('think\facade\Db::table("orders")->insert(["id" => 42, "state" => "new"]);');
        self::assertSame(5, $this->follow('thinkphp.md'));
        // Nobody waits for the night.
        $this->app->replace('config/duly.php', "'cron' => '0 3 * * *', 'tz' => 'Asia/Shanghai'", "'every' => 1");
        $work = $this->start('duly:work', '--queue', 'default', '--processes', '2');
        $work->hear('closed order 42');
        $work->hear('closed order 44');
        $work->hear('orders are closed');
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) >= 3, 'they are not acked');
        self::assertSame('shop', $this->queue->schedules->get('nightly')?->owner);
        self::assertSame(1, $this->totals()['cancelled']);
        $states = 'echo json_encode(think\facade\Db::table("orders")->column("state", "id"));';
        self::assertSame('{"42":"closed","44":"closed"}', $this->app->evaluate($states));
    }

    /** @return iterable<string, array{string}> */
    public static function commands(): iterable
    {
        yield 'queue:work' => ['queue:work'];
        yield 'duly:work' => ['duly:work'];
    }

    /** @dataProvider commands */
    public function testThePageAboutThinkQueue(string $command): void
    {
        self::assertSame(4, $this->follow('think-queue.md'));
        $work = $this->start($command, '--queue', 'default', '--tries', '3');
        $work->hear('closed order 42');
        $work->hear('closed order 44');
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) === 2, 'they are not acked');
        self::assertSame(1, $this->queue->counts()->delayed);
    }

    public function testWhatGoesWrongIsSaidAsThePageSays(): void
    {
        $provoke = [
            'Class "Duly\Client" not found' => fn (): string => $this->withoutTheExtension('duly()->push(1);'),
            "this application has no handler for the name 'order.close'" => function (): string {
                $this->queue->push(1, name: 'order.close', maxRetries: 0);
                $this->start('duly:work', '--queue', 'default');
                Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it has not failed');
                return (string) $this->queue->peek('failed')[0]->error;
            },
            'config/duly.php: schedules.list.nightly' => function (): string {
                $entry = "'schedules' => ['list' => ['nightly' => '0 3 * * *']],";
                $this->app->replace('config/duly.php', "'queue' => 'default',", "'queue' => 'default', {$entry}");
                $work = $this->start('duly:work');
                $work->end();
                return $work->said();
            },
        ];
        self::assertSame(array_keys($provoke), Symptoms::on('thinkphp.md', 'If something goes wrong'));
        foreach ($provoke as $text => $call) {
            $said = $call();
            self::assertTrue(Symptoms::areSaidBy($text, $said), "it was said: {$said}");
        }
    }

    private function withoutTheExtension(string $code): string
    {
        $this->app->write('code.php', "<?php
            require 'vendor/autoload.php';
            (new think\\App(getcwd()))->initialize();
            {$code}
        ");
        $options = ['-n', '-d', 'display_errors=1'];
        foreach (['pdo', 'ctype', 'mbstring', 'tokenizer', 'pdo_sqlite'] as $extension) {
            array_push($options, '-d', "extension={$extension}");
        }
        $program = new Running([PHP_BINARY, ...$options, 'code.php'], $this->app->folder());
        $program->end();
        return $program->said();
    }

    /** Does what a page says, first the files and then what uses them, and gives how many of its examples there were. */
    private function follow(string $page): int
    {
        $text = (string) file_get_contents(dirname(__DIR__, 2) . "/docs/php/{$page}");
        preg_match_all(self::BLOCK, $text, $blocks, PREG_SET_ORDER);
        $code = [];
        foreach ($blocks as [, $what, $indent, $example]) {
            $example = (string) preg_replace("/^{$indent}/m", '', $example);
            if (str_starts_with($what, 'writes ')) {
                $this->app->write(substr($what, strlen('writes ')), $example);
            } else {
                self::assertSame('runs it in the application', $what);
                $code[] = $example;
            }
        }
        foreach ($code as $example) {
            self::assertSame('', $this->app->evaluate($example));
        }
        return count($blocks);
    }
}
