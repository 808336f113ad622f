/** Lines on standard error about a run that says nothing: that it waits in the queue, or for somebody's decision. */
import type { OrchdClient } from '../../client/client.ts';
import type { RunStateName, RunView } from '../../model/http/runs.ts';
import type { Terminal } from '../command.ts';

/** A run that has said nothing for this long is looked at, again and again. */
const POLL_MS = 1000;

export class RunProgress {
  readonly #client: OrchdClient;
  readonly #runId: string;
  readonly #terminal: Pick<Terminal, 'complain'>;
  #timer: NodeJS.Timeout | undefined;
  #isQuiet = true;
  /** The state that was told last: a state is told once. */
  #told: RunStateName | undefined;

  constructor(client: OrchdClient, runId: string, terminal: Pick<Terminal, 'complain'>) {
    this.#client = client;
    this.#runId = runId;
    this.#terminal = terminal;
  }

  start(): void {
    this.#timer = setInterval(() => {
      if (this.#isQuiet) void this.#look();
      this.#isQuiet = true;
    }, POLL_MS).unref();
  }

  /** An event has come. */
  heard(): void {
    this.#isQuiet = false;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    try {
      const run = await this.#client.run(this.#runId);
      const isOver = this.#timer === undefined;
      if (isOver || run.state === this.#told) return;
      this.#told = run.state;
      for (const line of linesOf(run)) this.#terminal.complain(line);
    } catch {
      // The stream of events reports connection errors.
    }
  }
}

/** The sentence that tells a person about a run in this state. */
export function linesOf({ state, waits_for: calls = [] }: RunView): string[] {
  if (state === 'queued') return ['orchd: the run waits in the queue'];
  if (state === 'llm_queued') return ['orchd: waits in the queue for its model'];
  if (state === 'paused') return ['orchd: the run is paused; `orchd runs resume` lets it go on'];
  if (state !== 'needs_decision') return [];
  return calls
    .filter((call) => call.state === 'stale')
    .map(
      ({ job_id: id }) =>
        `orchd: nobody knows whether the call ${id} was made; \`orchd show ${id}\` shows it, \`orchd resolve ${id}\` decides`,
    );
}
