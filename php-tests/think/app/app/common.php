<?php

/** Writes a line that the test reads; whole, also if several processes write. */
function note(string $line): void
{
    file_put_contents(app()->getRuntimePath() . 'notes', "{$line}\n", FILE_APPEND | LOCK_EX);
}
