/** How services are run: as processes of this machine, or in containers. Both offer the same. */
export interface ServiceStatus {
  readonly name: string
  readonly state: 'running' | 'starting' | 'stopped'
  readonly pid: number | null
  readonly port: number | null
  readonly variable: string
  readonly url: string | null
}

export interface Engine {
  readonly kind: 'processes' | 'containers'
  /** Named services, and what they need, run and are ready when this resolves. No names: all. */
  up(names: readonly string[]): Promise<readonly ServiceStatus[]>
  /** `data`: and forgets what they stored. */
  down(names: readonly string[], data: boolean): Promise<readonly ServiceStatus[]>
  /** Ends it without a chance to tidy up; `up` brings it back on the same data. */
  kill(name: string): Promise<ServiceStatus>
  status(names: readonly string[]): Promise<readonly ServiceStatus[]>
}

export type Report = (text: string) => void
