// Biome formats and lints. ESLint adds only what needs types (a promise nobody waits for), and the rule that
// the core reaches the outside world through Runtime alone, without which the simulator could not replay it.
import tseslint from 'typescript-eslint'

const why = 'The core must stay deterministic: go through Runtime.'

const worldlyGlobals = [
  'setTimeout',
  'setInterval',
  'setImmediate',
  'clearTimeout',
  'clearInterval',
  'clearImmediate',
  'performance',
  'process',
  'console',
  'crypto',
  'fetch',
]

const worldlySyntax = [
  ['Date.now', "MemberExpression[object.name='Date'][property.name='now']"],
  ['new Date() without arguments', "NewExpression[callee.name='Date'][arguments.length=0]"],
  ['Date()', "CallExpression[callee.name='Date']"],
  ['Math.random', "MemberExpression[object.name='Math'][property.name='random']"],
  ['AbortSignal.timeout', "MemberExpression[object.name='AbortSignal'][property.name='timeout']"],
  [
    'globalThis.<timer, process, …>',
    `MemberExpression[object.name='globalThis'][property.name=/^(${worldlyGlobals.join('|')})$/]`,
  ],
]

export default tseslint.config(
  {
    ignores: [
      '**/node_modules/',
      '**/dist/',
      '.cache/',
      '.services/',
      '.chaos/',
      '.soak/',
      'site/',
      'coverage/',
      'examples/express-prisma/',
      'examples/nest-orders/',
    ],
  },
  {
    files: ['**/*.ts'],
    languageOptions: {
      parser: tseslint.parser,
      parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname },
    },
    plugins: { '@typescript-eslint': tseslint.plugin },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
    },
  },
  {
    files: ['src/core/**/*.ts'],
    ignores: ['src/core/runtime/system-runtime.ts', '**/*.test.ts'],
    rules: {
      'no-restricted-globals': ['error', ...worldlyGlobals.map((name) => ({ name, message: why }))],
      'no-restricted-syntax': [
        'error',
        ...worldlySyntax.map(([what, selector]) => ({ selector, message: `${what}: ${why}` })),
      ],
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              // Everything of Node's but what has neither time, chance nor I/O in it.
              regex: '^node:(?!async_hooks$|buffer$|diagnostics_channel$|util$|util/types$)',
              message: why,
            },
          ],
        },
      ],
    },
  },
)
