import { ERROR_CODES, OutboxError } from '../../core/errors.ts'

/** A client library, when it is first needed: who sends to one broker need not install those of the others. */
export const loadPeer = async <Module>(specifier: string): Promise<Module> => {
  try {
    const module = (await import(specifier)) as { readonly default?: Module } & Module
    return module
  } catch (cause) {
    throw new OutboxError(
      ERROR_CODES.missingPeer,
      `The package ${specifier} could not be loaded. Install it: npm install ${specifier}`,
      { cause, package: specifier },
    )
  }
}
