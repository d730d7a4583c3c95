<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Failures;

/**
 * Whether a database connection is gone for good: a fresh process has a fresh one.
 *
 * @internal of `Duly\Think`
 */
final class GoneAway
{
    /** What drivers say of a connection that is gone, or of a server that has become a replica. */
    private const SAID = '/gone away|lost connection|no connection to|closed the connection|connection has been closed'
        . '|connection (?:refused|reset|timed out|was killed|is broken|is no longer usable|is not usable)|reset by peer'
        . '|broken pipe|link failure|packets out of order|while sending|writing data to the connection|SQLSTATE\[08'
        . '|read-only option|terminating connection/i';

    public static function means(\Throwable $thrown): bool
    {
        foreach (Failures::withCauses($thrown) as $error) {
            if (!$error instanceof \PDOException && !$error instanceof \think\db\exception\PDOException) {
                continue;
            }
            if (preg_match(self::SAID, $error->getMessage()) === 1) {
                return true;
            }
        }
        return false;
    }
}
