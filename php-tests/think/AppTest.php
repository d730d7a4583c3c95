<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Running;

/** What the package gives to an application. */
final class AppTest extends ThinkTestCase
{
    public function testTheHelperAndTheFacadePush(): void
    {
        $said = $this->app->evaluate('
            use Duly\Think\Facade\Duly;
            duly("orders")->push(["order" => 1], name: "order.named", delay: new DateInterval("PT1H"));
            duly()->push(2);
            Duly::push(3, name: "n", key: "k");
            echo Duly::queue()->counts()->ready, " ", Duly::queue("orders")->counts()->delayed, " ",
                duly()->find(key: "k")->name, " ", get_class(app("duly")), " ", duly() === app("duly") ? "1" : "2";
        ');
        self::assertSame('2 1 n Duly\Think\Duly 1', $said);
    }

    public function testThePrefixAndTheServerComeFromTheEnvFile(): void
    {
        self::assertSame('1', $this->app->evaluate('duly()->push(1); echo duly()->counts()->ready;'));
        self::assertSame(1, $this->queue->counts()->ready);
    }

    public function testWhatWaitsForTheDatabaseIsPushedBehindTheCommitAndNotAfterARollback(): void
    {
        $this->app->evaluate('
            use think\facade\{Db, Queue};
            $push = fn (int $order) => duly()->afterCommit(fn () => duly()->push($order));
            $push(1);
            $given = duly()->transaction(function () use ($push) {
                $push(2);
                Db::table("orders")->insert(["id" => 2]);
                $id = Queue::connection("late")->push("Close", ["order" => 2]);
                Queue::connection("late")->bulk(["Close"], ["order" => 2]);
                try {
                    duly()->transaction(function () use ($push) {
                        $push(3);
                        Db::table("orders")->insert(["id" => 2]);
                    });
                } catch (think\db\exception\PDOException) {
                }
                duly()->transaction(fn () => $push(4));
                note(json_encode([duly()->counts()->ready, duly("late")->counts()->ready]));
                return $id;
            });
            $late = duly("late");
            note(json_encode([duly()->counts()->ready, $late->find($given)->state, $late->counts()->ready]));
            try {
                duly()->transaction(function () use ($push) {
                    $push(5);
                    Db::table("orders")->insert(["id" => 5]);
                    throw new DomainException();
                });
            } catch (DomainException) {
            }
            $push(6);
            note(json_encode(Db::table("orders")->column("id")));
            try {
                Db::transaction(fn () => duly()->transaction(fn () => $push(7)));
            } catch (LogicException $error) {
                note($error->getMessage());
            }
        ');
        $pushed = array_map(static fn ($job): mixed => $job->data(), $this->queue->peek('ready'));
        self::assertSame([1, 2, 4, 6], $pushed);
        $notes = ['[1,0]', '[3,"ready",2]', '[2]'];
        self::assertSame($notes, array_slice($this->app->notes(), 0, 3));
        self::assertStringContainsString("begin the outer one by duly()->transaction()", $this->app->notes()[3]);
    }

    public function testInstallPublishesTheConfigurationAndChecksWhatIsThere(): void
    {
        $file = $this->app->folder() . '/config/duly.php';
        unlink($file);
        $install = $this->app->start('duly:install');
        self::assertSame(0, $install->end());
        self::assertFileEquals(dirname(__DIR__, 2) . '/php-binding/php/src/Think/config.php', $file);
        $texts = ['config/duly.php is written', 'extension duly', 'server answers', "the connection duly is duly's"];
        foreach ($texts as $text) {
            self::assertStringContainsString($text, $install->said());
        }
        file_put_contents($this->app->folder() . '/.env', "DULY_URL = \"unix:///no/such/server\"\n");
        $install = $this->app->start('duly:install');
        self::assertSame(1, $install->end());
        self::assertStringContainsString('DULY_URL in .env', $install->said());
    }

    public function testWithoutTheExtensionTheApplicationRunsAndInstallSaysHowToGetIt(): void
    {
        $without = [PHP_BINARY, '-n'];
        foreach (['pdo', 'ctype', 'mbstring', 'tokenizer', 'pdo_sqlite'] as $extension) {
            array_push($without, '-d', "extension={$extension}");
        }
        $said = ['duly:install' => 'pie install duly/ext', 'duly:work' => 'duly:install says how'];
        foreach ($said + ['service:discover' => ''] as $command => $text) {
            $program = new Running([...$without, 'think', $command], $this->app->folder());
            $program->end();
            self::assertStringContainsString($text, $program->said());
            self::assertStringNotContainsString('Fatal', $program->said());
        }
    }
}
