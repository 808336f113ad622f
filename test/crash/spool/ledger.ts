/**
 * What handlers have done, kept outside of the disk: a job was begun, and its `result.json` became complete. It is complete
 * at the rename that gives it its name, whatever happens to its agent in the next instant.
 */
import type { Tree } from './machine.ts';

export interface Entry {
  readonly job: string;
  /** The pid of the agent. */
  readonly by: number;
  readonly is: 'begun' | 'finished';
}

const RESULT = /\/([^/]+)\/result\.json$/;

const INCOMING = '/spool/incoming';

/** The number of attempts that the `job.json` of a waiting job knows of. */
function attemptsIn(tree: Tree, job: string): number {
  const file = tree.find(`${INCOMING}/${job}/job.json`);
  if (!file || file.isFolder) return 0;
  return (JSON.parse(file.content.toString()) as { attempt?: number }).attempt ?? 0;
}

export class Ledger {
  #entries: Entry[];
  readonly #onEntry: (entry: Entry) => void;
  readonly #problems: string[] = [];

  /** `entries` are those of earlier processes; `onEntry` is told of every one that comes. */
  constructor(entries: readonly Entry[] = [], onEntry: (entry: Entry) => void = () => undefined) {
    this.#entries = [...entries];
    this.#onEntry = onEntry;
  }

  begin(job: string, by: number): void {
    this.#add({ job, by, is: 'begun' });
  }

  onRename(to: string, by: number): void {
    const job = RESULT.exec(to)?.[1];
    if (job !== undefined) this.#add({ job, by, is: 'finished' });
  }

  #add(entry: Entry): void {
    this.#entries.push(entry);
    this.#onEntry(entry);
  }

  /** A result that the power cut took never was complete. A job that was begun must not look as if it had not been. */
  onPowerCut(tree: Tree): void {
    const files = [...tree.walk()].filter(({ node }) => !node.isFolder);
    const left = new Set(files.map(({ path }) => RESULT.exec(path)?.[1]));
    this.#entries = this.#entries.filter(({ job, is }) => is === 'begun' || left.has(job));
    for (const job of new Set(this.#entries.map((entry) => entry.job))) {
      const isWaiting = tree.find(`${INCOMING}/${job}`) !== undefined;
      if (isWaiting && !left.has(job) && this.count(job, 'begun') > attemptsIn(tree, job))
        this.#problems.push(`${job} was begun, and a power cut has brought it back to incoming`);
    }
  }

  count(job: string, is: Entry['is']): number {
    return this.#entries.filter((entry) => entry.job === job && entry.is === is).length;
  }

  /** At most one execution is finished, by the agent that has begun the last one, and none is begun after it. */
  problems(): string[] {
    const found = [...this.#problems];
    const finished = new Set<string>();
    const agents = new Map<string, number>();
    for (const { job, is, by } of this.#entries) {
      if (finished.has(job))
        found.push(is === 'begun' ? `${job} was begun after it had a result` : `${job} was finished twice`);
      if (is === 'begun') agents.set(job, by);
      else if (agents.get(job) !== by) found.push(`${job} was finished by an agent that had lost it`);
      if (is === 'finished') finished.add(job);
    }
    return found;
  }
}
