<?php

declare(strict_types=1);

namespace Duly\Think;

/**
 * Delays as think-queue takes them: seconds, which the console gives as text, an interval, or a moment.
 *
 * @internal of `Duly\Think`
 */
final class Delay
{
    /** In seconds from now; a moment in the past is now. */
    public static function seconds(mixed $delay): float
    {
        if ($delay instanceof \DateInterval) {
            $delay = (new \DateTimeImmutable())->add($delay);
        }
        if ($delay instanceof \DateTimeInterface) {
            return max(0.0, (float) $delay->format('U.u') - microtime(true));
        }
        return max(0.0, (float) $delay);
    }

    /** @return array<string, mixed> the argument of `Duly\Queue::push` that says the same, by the server's clock */
    public static function option(mixed $delay): array
    {
        $now = new \DateTimeImmutable();
        return match (true) {
            $delay instanceof \DateTimeInterface => ['at' => $delay],
            $delay instanceof \DateInterval && $now->add($delay) > $now => ['delay' => $delay],
            default => ['delay' => self::seconds($delay)],
        };
    }
}
