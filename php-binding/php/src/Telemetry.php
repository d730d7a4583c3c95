<?php

declare(strict_types=1);

namespace Duly;

/**
 * Continues the trace of the producer in the handler, if the program uses OpenTelemetry.
 *
 * @internal
 */
final class Telemetry
{
    /** Loaded by every program that has spans. */
    private const SPAN = 'OpenTelemetry\API\Trace\Span';
    private const PROPAGATOR = 'OpenTelemetry\API\Trace\Propagation\TraceContextPropagator';

    /** Gives the scope to detach after the run. */
    public static function continue(Job $job): ?object
    {
        if (!class_exists(self::SPAN, false) || !class_exists(self::PROPAGATOR)) {
            return null;
        }
        $headers = $job->headers;
        if (!isset($headers['traceparent'])) {
            return null;
        }
        return [self::PROPAGATOR, 'getInstance']()->extract($headers)->activate();
    }
}
