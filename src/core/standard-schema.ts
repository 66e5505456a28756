/**
 * The part of Standard Schema (https://standardschema.dev) that Posthaste uses, typed here so that no schema
 * library is needed. A schema may be an object (Zod, Valibot) or a function (ArkType): never ask for `typeof`.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

export interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export type SchemaInput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input']
export type SchemaOutput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output']

/**
 * A schema that checks nothing and only names the payload's type, for catalogues without a schema library:
 * `defineEvent('order.placed', { schema: typeOnly<Order>(), key: (order) => order.id })`.
 */
export const typeOnly = <T>(): StandardSchema<T> => TYPE_ONLY as StandardSchema<T>

/** By its vendor: the definition may come from the other build of this package. */
export const isTypeOnly = (schema: StandardSchema): boolean => schema['~standard'].vendor === VENDOR

const VENDOR = 'posthaste'

const TYPE_ONLY: StandardSchema = Object.freeze({
  '~standard': Object.freeze({ version: 1, vendor: VENDOR, validate: (value: unknown) => ({ value }) }),
} as const)
