/** What can be checked: scenes, each small enough to be looked at completely, and mistakes that must be noticed. */

/** Keys and lanes of the three events, and how much of each kind of fault may happen in one history. */
export interface Scene {
  readonly name: string
  readonly says: string
  /** 1 is key a, 2 is key b, 0 is none. */
  readonly keys: readonly [number, number, number]
  readonly lanes: readonly [number, number, number]
  readonly budgets: Partial<Readonly<Record<Budget, number>>>
}

const BUDGETS = ['lapses', 'hot_lapses', 'crashes', 'refusals', 'rollbacks', 'moves', 'idle_reads'] as const
type Budget = (typeof BUDGETS)[number]

export const SCENES: readonly Scene[] = [
  {
    name: 'mixed',
    says: 'keys a, a and none: a hot claim runs out, a send is refused, a read comes late',
    keys: [1, 1, 0],
    lanes: [0, 0, 0],
    budgets: { hot_lapses: 1, refusals: 1, idle_reads: 1 },
  },
  {
    name: 'hot',
    says: 'keys a, b and none: a hot claim runs out, a process crashes, a transaction is rolled back',
    keys: [1, 2, 0],
    lanes: [0, 0, 0],
    budgets: { hot_lapses: 1, crashes: 1, rollbacks: 1 },
  },
  {
    name: 'leases',
    says: 'keys a, a and b: the lease of a worker that runs goes by',
    keys: [1, 1, 2],
    lanes: [0, 0, 0],
    budgets: { lapses: 1 },
  },
  {
    name: 'lanes',
    says: 'keys a, a and b in two lanes: a lane is given up, a send is refused, a read comes late',
    keys: [1, 1, 2],
    lanes: [0, 0, 1],
    budgets: { refusals: 1, moves: 1, idle_reads: 1 },
  },
]

export interface Bug {
  readonly name: string
  readonly says: string
  /** Where it shows with few steps. */
  readonly scene: string
}

export const BUGS: readonly Bug[] = [
  {
    name: 'no-fence-on-settle',
    scene: 'leases',
    says: 'a settle does not ask whether its worker was fenced',
  },
  { name: 'exists-without-lock', scene: 'leases', says: "a settle asks, but does not lock the worker's row" },
  { name: 'fence-without-waiting', scene: 'leases', says: 'a fence does not wait for settles under way' },
  { name: 'take-without-fence', scene: 'leases', says: 'lanes are taken from an expired worker, unfenced' },
  { name: 'handover-in-flight', scene: 'lanes', says: 'a lane is given up while a delivery of it runs' },
  { name: 'token-not-checked', scene: 'hot', says: 'a hot settle does not name its token' },
  { name: 'token-not-replaced', scene: 'hot', says: "a lane's owner sends a row that carries a hot token" },
  { name: 'lease-from-start', scene: 'hot', says: 'the hot lease counts from the start of the transaction' },
  {
    name: 'release-forgotten',
    scene: 'hot',
    says: 'a hot delivery leaves the queue, its claim is kept alive',
  },
  { name: 'dispatch-before-commit', scene: 'hot', says: 'a hot delivery is queued before its commit' },
  { name: 'cursor-without-sweep', scene: 'hot', says: 'nobody looks behind the cursor' },
  { name: 'keyed-without-sweep', scene: 'lanes', says: 'a keyed row is sent after a read without a sweep' },
  { name: 'claim-without-heads', scene: 'lanes', says: 'a claim by id does not look at what is before it' },
  { name: 'no-read-guard', scene: 'lanes', says: 'what is settled is forgotten while a read is under way' },
  { name: 'old-read-after-failure', scene: 'lanes', says: 'a read older than the failure of a head counts' },
]

export const findScene = (name: string): Scene | undefined => SCENES.find((scene) => scene.name === name)

export const findBug = (name: string): Bug | undefined => BUGS.find((bug) => bug.name === name)

/** As options of the preprocessor. */
export const definitions = (scene: Scene, bug: Bug | null): readonly string[] => [
  `-DBUG=${bug === null ? 'NO_BUG' : bug.name.toUpperCase().replaceAll('-', '_')}`,
  `-DLANES=${Math.max(...scene.lanes) + 1}`,
  ...scene.keys.map((key, i) => `-DKEY_${i}=${key}`),
  ...scene.lanes.map((lane, i) => `-DLANE_${i}=${lane}`),
  ...BUDGETS.map((budget) => `-DMAX_${budget.toUpperCase()}=${scene.budgets[budget] ?? 0}`),
]
