/**
 * Which gates of admission are closed, and what they measure. Not persisted: between its two marks, a gate is open when a
 * brain starts. Written by admission/gates.ts, but for the counts of waiting jobs.
 */
import { type AskRecord, uidOf } from '../../model/records.ts';

export class ClosedGates {
  /** More jobs wait than may. */
  depth = false;
  /** More memory of GPUs is used than may be: no worker is started on one. */
  memory = false;
  /** Bytes of all GPUs that pools report, at the last report. */
  usedBytes = 0;
  totalBytes = 0;
  /** Fewer waiting jobs than this open the gate of an agent. */
  agentLow = 0;
  readonly #waiting = new Map<string, number>();
  readonly #closedAgents = new Set<string>();

  /** `by` is 1 for a job that has been queued, -1 for one that no longer is. */
  count({ tenant, spec }: AskRecord, by: 1 | -1): void {
    const agent = uidOf(tenant, spec.agent);
    const jobs = (this.#waiting.get(agent) ?? 0) + by;
    if (jobs === 0) this.#waiting.delete(agent);
    else this.#waiting.set(agent, jobs);
    if (by < 0 && (jobs === 0 || jobs < this.agentLow)) this.#closedAgents.delete(agent);
  }

  waitingOf(tenant: string, agent: string): number {
    return this.#waiting.get(uidOf(tenant, agent)) ?? 0;
  }

  isAgentClosed(tenant: string, agent: string): boolean {
    return this.#closedAgents.has(uidOf(tenant, agent));
  }

  closeAgent(tenant: string, agent: string): void {
    this.#closedAgents.add(uidOf(tenant, agent));
  }

  openAgents(): void {
    this.#closedAgents.clear();
  }

  /** The agents whose gate is closed now; an agent of another tenant than the default as TENANT~AGENT. */
  get closedAgents(): ReadonlySet<string> {
    return this.#closedAgents;
  }

  agents(): IterableIterator<[string, number]> {
    return this.#waiting.entries();
  }
}
