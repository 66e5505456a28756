/** `posthaste/otel`: metrics and traces through the API of OpenTelemetry, which the application installs. */
export { type OtelMetricsOptions, otelMetrics } from './metrics.ts'
export { type OtelTracingOptions, otelTracing } from './tracing.ts'
