import { arch, cpus, platform, release, totalmem } from 'node:os'

/** Where a run took place. */
export const machine = () => ({
  cpu: cpus()[0]?.model.trim() || arch(),
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 1_073_741_824),
  os: `${platform()} ${release()}`,
})
