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
        self::assertStringContainsString("begin that one by duly()->transaction()", $this->app->notes()[3]);
    }

    public function testThinkPhpFindsTheServiceAndTheConfigurationInThePackage(): void
    {
        $vendor = $this->app->folder() . '/vendor';
        $package = dirname(__DIR__, 2) . '/php-binding';
        $written = json_decode((string) file_get_contents("{$package}/composer.json"), true);
        // As Composer installs a package.
        mkdir("{$vendor}/duly");
        symlink($package, "{$vendor}/duly/duly");
        mkdir("{$vendor}/composer");
        file_put_contents("{$vendor}/composer/installed.json", json_encode(['packages' => [$written]]));
        $config = $this->app->folder() . '/config/duly.php';
        unlink($config);
        file_put_contents("{$vendor}/services.php", '<?php return [];');
        self::assertStringContainsString('no commands defined', $this->app->run('duly:failed'));
        self::assertStringContainsString('Succeed!', $this->app->run('service:discover'));
        self::assertStringContainsString('Succeed!', $this->app->run('vendor:publish'));
        self::assertFileEquals("{$package}/php/src/Think/config.php", $config);
        self::assertStringContainsString('no job has failed', $this->app->run('duly:failed'));
        self::assertSame('1', $this->app->evaluate('duly()->push(1); echo duly()->counts()->ready;'));
    }

    public function testEachDatabaseHasItsOwnTransactions(): void
    {
        $this->app->replace('config/database.php', "'connections' => [", "'connections' => [
            'second' => [
                'type' => 'sqlite',
                'database' => app()->getRuntimePath() . 'second.db',
                'trigger_sql' => false,
            ],");
        $this->app->evaluate('
            use think\facade\Db;
            $ready = fn () => duly()->counts()->ready;
            $push = fn (int $order) => duly()->afterCommit(fn () => duly()->push($order));
            try {
                duly()->transaction(function () use ($push, $ready) {
                    $push(1);
                    duly()->transaction(fn () => $push(2), "second");
                    note((string) $ready());
                    throw new DomainException();
                });
            } catch (DomainException) {
            }
            duly()->transaction(function () use ($push, $ready) {
                duly()->transaction(function () use ($push, $ready) {
                    duly()->transaction(fn () => $push(3));
                    note((string) $ready());
                }, "second");
                note((string) $ready());
            });
            note((string) $ready());
        ');
        // The second database has committed what was pushed in it, whatever becomes of the first one.
        self::assertSame(['1', '1', '1', '2'], $this->app->notes());
        $pushed = array_map(static fn ($job): mixed => $job->data(), $this->queue->peek('ready'));
        self::assertSame([2, 3], $pushed);
    }

    public function testATransactionThatIsNotTheOneThatCommitsIsRefused(): void
    {
        $this->app->evaluate('
            use think\facade\Db;
            $insert = fn (int $id) => Db::table("orders")->insert(["id" => $id]);
            $push = fn (int $order) => duly()->afterCommit(fn () => duly()->push($order));
            $runs = [
                function () use ($insert, $push) {
                    $push(1);
                    $insert(1);
                    Db::startTrans();
                    $insert(2);
                },
                function () use ($insert, $push) {
                    $push(2);
                    $insert(3);
                    Db::rollback();
                },
                function () use ($insert, $push) {
                    $push(3);
                    $insert(4);
                    Db::connect()->getPdo()->rollBack();
                },
                function () use ($insert, $push) {
                    try {
                        duly()->transaction(function () use ($insert, $push) {
                            $push(4);
                            $insert(5);
                            Db::rollback();
                        });
                    } catch (LogicException) {
                    }
                },
            ];
            foreach ($runs as $run) {
                try {
                    duly()->transaction($run);
                    note("committed");
                } catch (LogicException $error) {
                    note(strstr($error->getMessage(), "has"));
                }
            }
            // Whatever it was, the next one is a transaction again.
            duly()->transaction(function () use ($insert, $push) {
                $push(9);
                $insert(9);
            });
            note(json_encode(Db::table("orders")->order("id")->column("id")));
        ');
        $ended = 'has ended the transaction, which is to be left to duly()->transaction()';
        $begun = 'has begun another transaction and not ended it; all is rolled back';
        self::assertSame([$begun, $ended, $ended, $ended, '[9]'], $this->app->notes());
        self::assertSame([9], array_map(static fn ($job): mixed => $job->data(), $this->queue->peek('ready')));
    }

    public function testATransactionOfAFiberThatIsDestroyedMakesNoLaterCallWait(): void
    {
        $this->app->evaluate('
            use think\facade\Db;
            $insert = fn (int $id) => Db::table("orders")->insert(["id" => $id]);
            $runs = [
                fn ($run) => $run(),
                fn ($run) => duly()->transaction($run),
                fn ($run) => Db::transaction($run),
            ];
            foreach ($runs as $at => $within) {
                $fiber = new Fiber(fn () => duly()->transaction(function () use ($insert, $within) {
                    duly()->afterCommit(fn () => duly()->push(1));
                    $within(function () use ($insert) {
                        $insert(1);
                        Fiber::suspend();
                    });
                }));
                $fiber->start();
                unset($fiber);
                duly()->afterCommit(fn () => duly()->push(2));
                duly()->transaction(fn () => $insert(2 + $at));
            }
            note(json_encode(Db::table("orders")->order("id")->column("id")));
        ');
        self::assertSame(['[2,3,4]'], $this->app->notes());
        self::assertSame([2, 2, 2], array_map(static fn ($job): mixed => $job->data(), $this->queue->peek('ready')));
    }

    public function testAFiberThatGoesOnBehindTheEndOfItsTransactionCommitsNoOther(): void
    {
        $this->app->evaluate('
            use think\facade\Db;
            $insert = fn (int $id) => Db::table("orders")->insert(["id" => $id]);
            $fiber = new Fiber(fn () => duly()->transaction(function () use ($insert) {
                $insert(1);
                Fiber::suspend();
            }));
            $fiber->start();
            Duly\Think\OpenTransactions::end(app(), fn () => "a run");
            foreach ([fn () => $fiber->resume(), fn () => duly()->afterCommit(fn () => note("pushed"))] as $call) {
                try {
                    duly()->transaction(function () use ($insert, $call) {
                        $insert(2);
                        $call();
                        $insert(3);
                    });
                } catch (LogicException $error) {
                    note($error->getMessage());
                }
                note(json_encode(Db::table("orders")->column("id")));
            }
        ');
        $refused = 'duly()->transaction(): the run in which it began is over, and all was rolled back';
        self::assertSame([$refused, '[]', 'pushed', '[2,3]'], $this->app->notes());
    }

    public function testWhatIsToWaitForATransactionThatDulyDoesNotKnowIsRefused(): void
    {
        $this->app->evaluate('
            use think\facade\{Db, Queue};
            $pushes = [
                fn () => Queue::connection("late")->push("Close", 1),
                fn () => Queue::connection("late")->later(1, "Close", 1),
                fn () => Queue::connection("late")->bulk(["Close"], 1),
                fn () => duly()->afterCommit(fn () => duly()->push(1)),
                fn () => duly()->transaction(fn () => 1),
            ];
            $arounds = [
                fn ($push) => Db::transaction($push),
                fn ($push) => duly()->transaction(fn () => Db::transaction($push)),
            ];
            foreach ($arounds as $around) {
                foreach ($pushes as $push) {
                    try {
                        $around($push);
                        note("pushed");
                    } catch (LogicException $error) {
                        note($error->getMessage());
                    }
                }
            }
            Queue::connection("late")->push("Close", 1);
        ');
        $text = 'a transaction is open that duly does not know: begin that one by duly()->transaction(), too';
        self::assertSame(array_fill(0, 10, $text), $this->app->notes());
        $late = $this->client->queue('late')->counts();
        self::assertSame([1, 0, 0], [$late->ready, $late->delayed, $this->queue->counts()->ready]);
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
