import { FAMILIES, type FamilyName } from '../core/runtime/metric-families.ts'

/** The name of a family in Prometheus, without the `_total` of counters. */
export const prometheusName = (name: FamilyName, prefix = 'posthaste_'): string => {
  const { unit } = FAMILIES[name]
  return `${prefix}${name}${unit === '' ? '' : `_${unit}`}`
}
