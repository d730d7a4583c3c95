<?php

declare(strict_types=1);

namespace Duly\Think\Command;

use Duly\Exception\ExceptionInterface;
use Duly\Supervisor;
use Duly\Think\Connector;
use Duly\Think\Duly;
use think\console\Command;
use think\console\Input;
use think\console\Output;

/** `php think duly:install`: publishes `config/duly.php`, checks what duly needs, and says how to get what is missing. */
class Install extends Command
{
    private bool $isWell = true;

    protected function configure(): void
    {
        $this->setName('duly:install')->setDescription('Check what duly needs, and publish config/duly.php');
    }

    protected function execute(Input $input, Output $output): int
    {
        $this->publish();
        if ($this->checkExtension()) {
            $this->checkServer();
        }
        $this->checkProcesses();
        $this->checkThinkQueue();
        return $this->isWell ? 0 : 1;
    }

    private function publish(): void
    {
        $file = $this->app->getConfigPath() . 'duly.php';
        if (is_file($file)) {
            $this->say(true, 'config/duly.php is there');
            return;
        }
        $isCopied = @copy(dirname(__DIR__) . '/config.php', $file);
        $this->say($isCopied, $isCopied ? 'config/duly.php is written' : "config/duly.php: cannot write {$file}");
    }

    private function checkExtension(): bool
    {
        if (!extension_loaded('duly')) {
            $php = PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION . (PHP_ZTS ? ' ZTS' : ' NTS');
            $ini = php_ini_loaded_file() ?: 'php.ini';
            $this->say(false, "the extension duly is not loaded (PHP {$php}): install it by `pie install duly/ext`, "
                . "or put extension=/path/to/duly.so into {$ini}. php-fpm may read another file than the command line");
            return false;
        }
        $version = (string) phpversion('duly');
        $package = $this->packageVersion();
        $isSame = $package === null || version_compare($package, $version, '==');
        $this->say($isSame, $isSame
            ? "the extension duly {$version} is loaded"
            : "the extension is duly {$version}, and the package {$package}: install the same version of both");
        return true;
    }

    /** Null where Composer does not know it, and for branches. */
    private function packageVersion(): ?string
    {
        $composer = 'Composer\InstalledVersions';
        if (!class_exists($composer) || !$composer::isInstalled('duly/duly')) {
            return null;
        }
        $version = ltrim((string) $composer::getPrettyVersion('duly/duly'), 'v');
        return preg_match('/^\d/', $version) === 1 ? $version : null;
    }

    private function checkServer(): void
    {
        try {
            $this->app->make(Duly::class)->client()->ping();
            $this->say(true, 'the server answers, and has what duly needs');
        } catch (ExceptionInterface $error) {
            $this->say(false, "the server: {$error->getMessage()}; `url` in config/duly.php, DULY_URL in .env, or "
                . 'duly.url in php.ini says where it is');
        }
    }

    private function checkProcesses(): void
    {
        $missing = implode(', ', Supervisor::missing(Work::NEEDED));
        if ($missing === '') {
            $this->say(true, 'pcntl and posix are loaded: duly:work runs several processes, and stops cleanly');
        } else {
            $this->output->comment("   PHP has no {$missing}: duly:work runs one process only, which nobody replaces");
        }
    }

    private function checkThinkQueue(): void
    {
        if (!class_exists(\think\Queue::class)) {
            return;
        }
        foreach ($this->app->config->get('queue.connections', []) as $name => $connection) {
            if (Connector::isOf($connection)) {
                $is = $name === $this->app->config->get('queue.default') ? ', and the default' : '';
                $this->say(true, "think-queue: the connection {$name} is duly's{$is}");
                return;
            }
        }
        $this->output->comment("   think-queue: no connection of config/queue.php is duly's; to switch one:");
        $this->output->comment("   'duly' => ['type' => \\Duly\\Think\\Connector::class, 'queue' => 'default'],");
    }

    private function say(bool $isWell, string $text): void
    {
        $this->isWell = $this->isWell && $isWell;
        $isWell ? $this->output->info("ok {$text}") : $this->output->error("!! {$text}");
    }
}
