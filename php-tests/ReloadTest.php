<?php

declare(strict_types=1);

namespace Duly\Tests;

/** `duly-worker` after a deployment: an application with Composer's files, in a folder or behind the link `current`. */
final class ReloadTest extends ServerTestCase
{
    private const PACKAGE = __DIR__ . '/../php-binding';
    private const OPCACHE = ['-dopcache.enable=1', '-dopcache.enable_cli=1'];
    /** Where opcache notes everything: it never notes files that are newer than the program that it is in. */
    private const OLD = 3600;

    private string $folder;
    /** Whether vendor/bin/duly-worker is a link, and not a file that includes the program. */
    private bool $isLinked = false;

    protected function setUp(): void
    {
        parent::setUp();
        $this->folder = sys_get_temp_dir() . '/duly-reload-' . bin2hex(random_bytes(6));
        $this->release(1, time() - self::OLD);
        symlink('releases/1', "{$this->folder}/current");
    }

    protected function tearDown(): void
    {
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    /** @return array<string, array{list<string>}> */
    public static function options(): array
    {
        return [
            'as usual' => [[]],
            'opcache' => [[...self::OPCACHE, '-dopcache.validate_timestamps=1']],
            'opcache that never looks, with JIT' => [[
                ...self::OPCACHE, '-dopcache.validate_timestamps=0', '-dopcache.jit=tracing',
                '-dopcache.jit_buffer_size=16M',
            ]],
        ];
    }

    /**
     * @dataProvider options
     * @param list<string> $options
     */
    public function testAProcessThatIsReplacedRunsTheNewFilesInTheSameFolder(array $options): void
    {
        $release = "{$this->folder}/releases/1";
        $program = $this->start($release, [...$options, "{$release}/vendor/bin/duly-worker", 'bootstrap.php']);
        $this->untilItRuns(self::says(1) . '1;', $program);
        $this->write(1, 2, time() - intdiv(self::OLD, 2));
        $program->signal(SIGHUP);
        $this->untilItRuns(self::says(2) . '1;', $program);
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    /**
     * @dataProvider options
     * @param list<string> $options
     */
    public function testAProcessThatIsReplacedRunsTheReleaseToWhichTheLinkLeads(array $options): void
    {
        $current = "{$this->folder}/current";
        symlink('current/vendor/bin/duly-worker', "{$this->folder}/duly-worker");
        // As systemd starts it, as a shell does, where only the name of the folder has the link, and by a link to it.
        $ways = [
            1 => [false, ["{$current}/vendor/bin/duly-worker", 'bootstrap.php']],
            2 => [true, ['./vendor/bin/duly-worker', './bootstrap.php']],
            3 => [false, ["{$this->folder}/duly-worker", 'bootstrap.php']],
        ];
        foreach ($ways as $old => [$isShell, $command]) {
            $this->follows($old, $this->start($current, [...$options, ...$command], $isShell));
        }
    }

    public function testTheLinkMayBeInTheNameOfTheBootstrapFileAlone(): void
    {
        $current = "{$this->folder}/current";
        $programs = [1 => 'vendor/bin/duly-worker', 2 => "{$this->folder}/releases/2/vendor/bin/duly-worker"];
        foreach ($programs as $old => $program) {
            $this->follows($old, $this->start($current, [$program, "{$current}/bootstrap.php"]));
        }
        symlink('current/bootstrap.php', "{$this->folder}/bootstrap.php");
        $this->follows(3, $this->start($current, ['vendor/bin/duly-worker', "{$this->folder}/bootstrap.php"]));
    }

    public function testARelativePathMayHaveTheLink(): void
    {
        symlink('current/vendor/bin/duly-worker', "{$this->folder}/dw");
        symlink('current/bootstrap.php', "{$this->folder}/b.php");
        symlink('current/vendor/bin', "{$this->folder}/bin");
        $ways = [
            1 => [false, ['current/vendor/bin/duly-worker', './current/bootstrap.php']],
            2 => [true, ['current/vendor/bin/duly-worker', './current/bootstrap.php']],
            3 => [false, ['dw', 'b.php']],
            4 => [true, ['bin/duly-worker', 'b.php']],
        ];
        foreach ($ways as $old => [$isShell, $command]) {
            $this->follows($old, $this->start($this->folder, $command, $isShell), basename($this->folder));
        }
    }

    public function testAFolderThatIsNamedWithoutTheLinkSaysNothing(): void
    {
        $command = ["{$this->folder}/current/vendor/bin/duly-worker", 'bootstrap.php'];
        $this->follows(1, $this->start("{$this->folder}/releases/1", $command, true));
    }

    public function testComposerMayHaveLinkedTheProgram(): void
    {
        $this->isLinked = true; // as Composer before 2.2 does it
        $current = "{$this->folder}/current";
        // The name of the link says more than that of the folder above it.
        symlink($this->folder, "{$this->folder}/home");
        symlink('home/current/vendor/bin/duly-worker', "{$this->folder}/duly-worker");
        $this->deploy(2);
        $programs = [2 => "{$current}/vendor/bin/duly-worker", 3 => "{$this->folder}/home/duly-worker"];
        foreach ($programs as $old => $program) {
            $this->follows($old, $this->start($current, [$program, 'bootstrap.php']));
        }
    }

    public function testWhereNobodyNamesTheFolderItRunsTheReleaseInIt(): void
    {
        $options = ['-ddisable_functions=chdir,readlink'];
        $program = $this->start("{$this->folder}/current", [...$options, 'vendor/bin/duly-worker', 'bootstrap.php']);
        $this->untilItRuns(self::says(1) . '1;', $program);
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testAReleaseWithAnotherVersionOfDulyIsRefused(): void
    {
        // Also where its files take the place of the old ones.
        foreach ([2, 1] as $new) {
            $program = $this->start($this->folder, ['current/vendor/bin/duly-worker', 'current/bootstrap.php'], true);
            $this->untilItRuns(self::says(1), $program);
            $new === 1 || $this->release($new, time() - intdiv(self::OLD, 2));
            foreach (['Version', 'Worker'] as $class) {
                $file = "{$this->folder}/releases/{$new}/vendor/duly/duly/php/src/{$class}.php";
                $code = (string) file_get_contents($file);
                file_put_contents($file, preg_replace("/CLASSES = '[^']+'/", "CLASSES = '9.9.9'", $code));
            }
            $this->lead($new);
            $program->signal(SIGHUP);
            $program->hear('these classes are of 9.9.9: install the same version of both, and restart what runs PHP');
            $program->signal(SIGTERM);
            self::assertContains($program->end(), [0, 2]);
            self::assertStringNotContainsString('Fatal', $program->said());
            $this->lead(1);
        }
    }

    public function testAProgramsOwnSupervisorRunsTheReleaseToWhichTheLinkLeads(): void
    {
        $current = var_export("{$this->folder}/current", true);
        $program = $this->program("
            \$file = {$current} . '/bootstrap.php';
            realpath(\$file); // PHP notes for two minutes where the link leads
            exit((new Duly\\Supervisor(function () use (\$file): void {
                require_once {$current} . '/vendor/autoload.php';
                (require \$file)->run();
            }, log: say(...)))->run());
        ");
        $this->untilItRuns(self::says(1), $program);
        $this->deploy(2);
        $program->signal(SIGHUP);
        $this->untilItRuns(self::says(2), $program);
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    /** Deploys the next release by the link, and sees whether that runs, in its folder or always in this one. */
    private function follows(int $old, Program $program, ?string $folder = null): void
    {
        $new = $old + 1;
        $this->untilItRuns(self::says($old) . ($folder ?? $old) . ';', $program);
        $this->deploy($new);
        $program->signal(SIGHUP);
        $this->untilItRuns(self::says($new) . ($folder ?? $new) . ';', $program);
        // Also when the old release is gone, with all that the supervisor has been loaded from.
        exec('rm -rf ' . escapeshellarg("{$this->folder}/releases/{$old}"));
        preg_match_all('/ of (\d+);/', $program->said(), $found);
        posix_kill((int) end($found[1]), SIGKILL);
        $program->hear('was killed by signal 9 after ');
        $this->untilItRuns(self::says($new) . ($folder ?? $new) . ';', $program, anew: true);
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end(), $program->said());
    }

    /** What a job prints, up to the folder in which it runs. */
    private static function says(int $version): string
    {
        return "handler {$version}, function {$version}, bootstrap {$version}, again {$version}, in ";
    }

    /** Pushes jobs until one runs so; `$anew` if what was said before does not count. */
    private function untilItRuns(string $line, Program $program, bool $anew = false): void
    {
        $before = $anew ? substr_count($program->said(), $line) : 0;
        $runs = function () use ($line, $program, $before): bool {
            $this->queue->counts()->ready === 0 && $this->queue->push(1, name: 'n', maxRetries: 0);
            return substr_count($program->said(), $line) > $before;
        };
        try {
            Server::until($runs, '', 20.0);
        } catch (\RuntimeException) {
            self::fail("it does not run so: {$line}\n" . substr($program->said(), -2000));
        }
    }

    /** @param list<string> $command what stands after `php` */
    private function start(string $folder, array $command, bool $isShell = false): Program
    {
        $folder = var_export($folder, true);
        $all = var_export([...$command, '--processes=1'], true);
        // A shell keeps the name of the folder, with its links, in PWD.
        $way = $isShell ? "putenv('PWD=' . {$folder});" : "putenv('PWD');";
        return $this->program("chdir({$folder}); {$way} pcntl_exec(PHP_BINARY, {$all});");
    }

    private function deploy(int $release): void
    {
        $this->release($release, time() - intdiv(self::OLD, 2));
        $this->lead($release);
    }

    private function lead(int $release): void
    {
        symlink("releases/{$release}", "{$this->folder}/next");
        rename("{$this->folder}/next", "{$this->folder}/current");
    }

    /** A release with the package of duly in it, and the files that Composer writes, as far as they matter. */
    private function release(int $release, int $time): void
    {
        $folder = "{$this->folder}/releases/{$release}";
        mkdir("{$folder}/vendor/bin", recursive: true);
        mkdir("{$folder}/vendor/duly/duly", recursive: true);
        $package = realpath(self::PACKAGE);
        exec("cp -r {$package}/bin {$package}/php {$folder}/vendor/duly/duly/");
        $proxy = "<?php\n\$GLOBALS['_composer_autoload_path'] = __DIR__ . '/..' . '/autoload.php';\n"
            . "return include __DIR__ . '/..' . '/duly/duly/bin/duly-worker';\n";
        $program = "{$folder}/vendor/bin/duly-worker";
        $this->isLinked ? symlink('../duly/duly/bin/duly-worker', $program) : file_put_contents($program, $proxy);
        file_put_contents("{$folder}/vendor/autoload.php", '<?php
            spl_autoload_register(static function (string $class): void {
                $roots = ["Shop\\\\" => __DIR__ . "/../src/", "Duly\\\\" => __DIR__ . "/duly/duly/php/src/"];
                foreach ($roots as $prefix => $root) {
                    $file = $root . strtr(substr($class, strlen($prefix)), "\\\\", "/") . ".php";
                    if (str_starts_with($class, $prefix) && is_file($file)) {
                        require $file;
                    }
                }
            }, prepend: true);
            if (!isset($GLOBALS["__composer_autoload_files"]["shop"])) {
                $GLOBALS["__composer_autoload_files"]["shop"] = true;
                require __DIR__ . "/../src/functions.php";
            }
        ');
        $this->write($release, $release, $time);
    }

    /** The application's own files, which say which version they are. */
    private function write(int $release, int $version, int $time): void
    {
        $folder = "{$this->folder}/releases/{$release}";
        is_dir("{$folder}/src") || mkdir("{$folder}/src");
        $client = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
        $files = [
            'src/functions.php' => "function shop_version(): int { return {$version}; }",
            'src/Close.php' => "namespace Shop;
                final class Close {
                    public function __invoke(): void
                    {
                        \$said = 'handler {$version}, function ' . \\shop_version() . ', bootstrap ' . BOOTSTRAP
                            . ', again ' . AGAIN . ', in ' . basename((string) getcwd()) . '; of ' . getmypid() . ';';
                        fwrite(STDOUT, \"{\$said}\\n\");
                    }
                }",
            'src/again.php' => "define('AGAIN', {$version});",
            'bootstrap.php' => "require_once __DIR__ . '/vendor/autoload.php';
                require_once '{$this->folder}/current/src/again.php';
                define('BOOTSTRAP', {$version});
                return (new Duly\\Worker(new Duly\\Client({$client}), ['q']))->on('n', new Shop\\Close());",
        ];
        foreach ($files as $file => $code) {
            file_put_contents("{$folder}/{$file}", "<?php\n{$code}\n");
            touch("{$folder}/{$file}", $time);
        }
    }
}
