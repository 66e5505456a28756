import { readFileSync } from 'node:fs'
import { arch, cpus, platform, release, totalmem } from 'node:os'

interface ProcessorTime {
  readonly all: number
  /** When somebody else had the processor of a virtual machine. */
  readonly stolen: number
}

/** Null where the system does not tell. */
const processorTime = (): ProcessorTime | null => {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1)
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user and nice already.
    const times = line.split(/\s+/).slice(1, 9).map(Number)
    return { all: times.reduce((sum, time) => sum + time, 0), stolen: times[7] ?? 0 }
  } catch {
    return null
  }
}

const before = processorTime()

/** Of the processors since this process began, 0 to 1. */
const stolenShare = (): number | null => {
  const now = processorTime()
  if (before === null || now === null || now.all === before.all) return null
  return (now.stolen - before.stolen) / (now.all - before.all)
}

/** Where a run took place, and how much of that others had meanwhile. */
export const machine = () => ({
  cpu: cpus()[0]?.model.trim() || arch(),
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 1_073_741_824),
  os: `${platform()} ${release()}`,
  stolen: stolenShare(),
})

export type Machine = Omit<ReturnType<typeof machine>, 'stolen'> & {
  /** Figures of earlier runs do not have it. */
  readonly stolen?: number | null
}

/** `sharing`: who shares it, for the reader. */
export const machineText = ({ cpu, cores, memoryGiB, os, stolen }: Machine, sharing: string): string => {
  const others =
    typeof stolen === 'number' ? ` Other machines of its host had ${Math.round(stolen * 100)} % of it.` : ''
  return `- Machine: ${cores} cores (${cpu}), ${memoryGiB} GiB, ${os}; ${sharing} share it.${others}`
}
