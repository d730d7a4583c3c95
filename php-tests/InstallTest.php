<?php

declare(strict_types=1);

namespace Duly\Tests;

use PHPUnit\Framework\TestCase;

/** `phpize && ./configure && make && make install`, as PIE and people do it, in a copy of the folder. */
final class InstallTest extends TestCase
{
    private const ROOT = __DIR__ . '/..';

    private string $folder;

    protected function setUp(): void
    {
        $this->folder = sys_get_temp_dir() . '/duly-install-' . getmypid();
        $copy = "mkdir -p {$this->folder}/php-binding"
            . " && cp -r php-binding/ext php-binding/ext-console {$this->folder}/php-binding/"
            . " && cp Cargo.toml {$this->folder}/";
        self::succeeds($copy, self::ROOT);
        self::succeeds('phpize', $this->ext());
    }

    protected function tearDown(): void
    {
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    public function testAFinishedModuleIsInstalledWithoutRust(): void
    {
        $binary = realpath(self::ROOT . '/build/duly.so');
        // Neither cargo nor a C file: the PATH has what Debian's phpize needs.
        $configure = "./configure --with-duly-binary={$binary}";
        self::succeeds("HOME={$this->folder} PATH=/usr/bin:/bin {$configure}", $this->ext());
        self::succeeds('PATH=/usr/bin:/bin make', $this->ext());
        $this->installs();
    }

    public function testTheModuleWithCommandAndPageIsInstalledByTheSameFiles(): void
    {
        $binary = realpath(self::ROOT . '/build/duly_console.so');
        $commands = "phpize && ./configure --with-duly-binary={$binary} && make";
        self::succeeds("HOME={$this->folder} PATH=/usr/bin:/bin sh -c '{$commands}'", $this->ext('ext-console'));
        $this->installs('ext-console', 'duly_console');
        foreach (['config.m4', 'Makefile.frag'] as $file) {
            self::assertFileEquals("{$this->ext()}/{$file}", "{$this->ext('ext-console')}/{$file}");
        }
        // A dry run says which crate it would be without a binary.
        self::succeeds('./configure', $this->ext('ext-console'));
        [, $said] = self::ends('make --dry-run duly-cargo', $this->ext('ext-console'));
        self::assertMatchesRegularExpression('/build --release --locked --package duly-php-console$/m', $said);
    }

    public function testCargoBuildsIt(): void
    {
        self::succeeds('./configure', $this->ext());
        preg_match('/^DULY_PHP_CONFIG = (.+)$/m', (string) file_get_contents($this->ext() . '/Makefile'), $found);
        self::assertFileExists($found[1], 'the build of ext-php-rs wants a path');
        // In the shape of the other tests, so that nothing is compiled twice.
        $root = realpath(self::ROOT);
        $target = getenv('CARGO_TARGET_DIR') ?: "{$root}/target";
        self::succeeds(
            "make DULY_ROOT={$root} CARGO_TARGET_DIR={$target} DULY_BUILT={$target}/debug"
                . " CARGO_ENV= CARGO_FLAGS='--workspace --features duly/opentelemetry --lib --examples'",
            $this->ext()
        );
        $this->installs();
    }

    public function testAFileThatIsNotThereIsRefusedBeforeAnythingIsBuilt(): void
    {
        [$status, $said] = self::ends('./configure --with-duly-binary=/no/duly.so', $this->ext());
        self::assertNotSame(0, $status);
        self::assertStringContainsString('there is no file /no/duly.so', $said);
    }

    public function testAModuleThatThisPhpCannotLoadIsNotInstalled(): void
    {
        self::succeeds('./configure --with-duly-binary=/bin/true', $this->ext());
        [$status, $said] = self::ends('make install INSTALL_ROOT=' . $this->folder . '/root', $this->ext());
        self::assertNotSame(0, $status);
        self::assertStringContainsString('cannot load this module: it must be built for the same', $said);
        self::assertDirectoryDoesNotExist($this->folder . '/root');
    }

    public function testWithoutRustItSaysHowToGoOn(): void
    {
        [$status, $said] = self::ends("HOME={$this->folder} PATH=/usr/bin:/bin ./configure", $this->ext());
        if ($status === 0) {
            self::assertFileExists('/usr/bin/cargo'); // a machine with the system's own Rust
            return;
        }
        self::assertStringContainsString('https://rustup.rs, or give a finished module with --with-duly-binary', $said);
    }

    public function testPackagesHaveOneVersion(): void
    {
        preg_match('/^version = "(.+)"$/m', (string) file_get_contents(self::ROOT . '/Cargo.toml'), $found);
        $json = static fn (string $file): array
            => json_decode((string) file_get_contents(self::ROOT . $file), true, 512, JSON_THROW_ON_ERROR);
        self::assertSame($found[1], $json('/php-binding/composer.json')['require']['ext-duly']);
        self::assertSame($found[1], phpversion('duly'));
        // Composer and PIE take the version of these two from the tag.
        self::assertArrayNotHasKey('version', $json('/php-binding/composer.json'));
        self::assertArrayNotHasKey('version', $json('/php-binding/ext/composer.json'));
        self::assertArrayNotHasKey('version', $json('/php-binding/ext-console/composer.json'));
        self::assertSame($found[1], phpversion('duly_console'));
    }

    private function installs(string $folder = 'ext', string $name = 'duly'): void
    {
        self::succeeds("make install INSTALL_ROOT={$this->folder}/root", $this->ext($folder));
        $module = $this->folder . '/root' . ini_get('extension_dir') . "/{$name}.so";
        self::assertFileExists($module);
        $asks = "php -n -d extension={$module} -r 'echo phpversion(\"{$name}\");'";
        [$status, $said] = self::ends($asks, $this->folder);
        self::assertSame([0, (string) phpversion($name)], [$status, $said]);
    }

    private function ext(string $folder = 'ext'): string
    {
        return "{$this->folder}/php-binding/{$folder}";
    }

    private static function succeeds(string $command, string $folder): void
    {
        [$status, $said] = self::ends($command, $folder);
        self::assertSame(0, $status, "{$command}\n{$said}");
    }

    /** @return array{int, string} */
    private static function ends(string $command, string $folder): array
    {
        exec('cd ' . escapeshellarg($folder) . " && { {$command}; } 2>&1", $lines, $status);
        return [$status, implode("\n", $lines)];
    }
}
