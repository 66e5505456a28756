import type { KnipConfig } from 'knip'
import { entries } from './tsdown.config.ts'

const config: KnipConfig = {
  // What is published, and what people start by hand; tests are found through vitest's configuration.
  entry: [
    ...Object.values(entries),
    'src/cli/main.ts',
    'src/cli/prove/member.ts',
    'scripts/*.{ts,mjs}',
    'scripts/package/check-types.ts',
    'scripts/docs/{main.ts,assets/site.js}',
    'scripts/services/{index,main}.ts',
    'demo/**/*.ts',
    'bench/**/*.ts',
    'simulator/**/*.ts',
    'chaos/{crew/sink,crew/reader,crew/member,nemesis/main,checker/main}.ts',
    'test/nodes/**/*.ts',
    'examples/*/{server,shop,invoke,main,src/main,src/server}.ts',
    'examples/*/prisma/schema.prisma',
  ],
  project: [
    '{src,test,scripts,demo,bench,simulator,chaos,soak,fuzz,mutants,examples}/**/*.{ts,mjs}',
    'examples/*/prisma/*.prisma',
  ],
  ignoreExportsUsedInFile: true,
  // scripts/check.ts runs it by its other name, attw.
  // graphile-worker and pg-boss are installed by bench/peers alone.
  // smol-toml is loaded from the user's folder; tests put it there.
  ignoreDependencies: ['@arethetypeswrong/cli', 'graphile-worker', 'pg-boss', 'smol-toml'],
  // Of the system, where there are any.
  ignoreBinaries: ['mkfifo', 'mount', 'umount'],
  // test/nodes has its own package.json for the peers that Node 20 cannot install.
  rules: { optionalPeerDependencies: 'off' },
}

export default config
