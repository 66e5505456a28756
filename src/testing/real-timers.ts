/** The real ones, also where a test has put its own in their place: taken when the module is loaded. */
export const { setTimeout: later, clearTimeout: cancel, setImmediate: soon } = globalThis
