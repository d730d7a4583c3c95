"""The shop as an application of ThinkPHP, in a folder of its own. ThinkPHP is no part of duly: it must be given."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

DEMO = Path(__file__).resolve().parent
CLASSES = DEMO.parent / "php-binding" / "php" / "src"
HOW_TO_GET_IT = (
    "no ThinkPHP here: `composer require topthink/framework` in a folder, then "
    "DULY_THINK_VENDOR=/that/folder/vendor make demo"
)


def vendor() -> Path | None:
    """Give the folder with ThinkPHP, which the environment names, or Composer has made for the tests."""
    made = DEMO.parent / "php-tests" / "think" / "vendor"
    folder = Path(os.environ.get("DULY_THINK_VENDOR") or made)
    return folder.resolve() if (folder / "autoload.php").exists() else None


def make(thinkphp: Path, folder: Path) -> Path:
    """Make the application in this folder, and give its public one. Composer does the second half in a real one."""
    shutil.copytree(DEMO / "thinkphp", folder)
    (folder / "runtime").mkdir()
    (folder / "vendor").mkdir()
    (folder / "vendor/services.php").write_text("<?php return [\\Duly\\Think\\Service::class];\n", "utf-8")
    (folder / "vendor/autoload.php").write_text(
        f"""<?php
require_once '{thinkphp}/autoload.php';
spl_autoload_register(static function (string $class): void {{
    foreach (['Duly\\\\' => '{CLASSES}/', 'app\\\\' => __DIR__ . '/../app/'] as $prefix => $root) {{
        $file = $root . strtr(substr($class, strlen($prefix)), '\\\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {{
            require $file;
        }}
    }}
}});
require_once '{CLASSES}/Think/helper.php';
""",
        "utf-8",
    )
    return folder / "public"
