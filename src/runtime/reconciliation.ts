/**
 * Compares the open attempts of this brain with what its executors run: at the start with each executor once, as soon as
 * it answers, and by order of an operator with all of them.
 *
 * C1  An attempt is settled by the same findings as a single inspection of it (inspector.ts).
 * C2  An execution that no open attempt knows is ended only if it runs in two looks that are GRACE_MS apart: an offer may
 *     have begun it just now. It is ended only at an executor that no other copy of this store has commanded.
 * C3  Only executions of this brain's owner are seen and ended.
 * C4  Every attempt that is given up because nobody knows whether it ran is in a report, also if that is found out later:
 *     a gateway that was started again may search for a call for minutes.
 * C5  A result that no open attempt waits for is acknowledged, and its execution ended, only when everything that was
 *     decided so far is durable: the attempt may have been closed a moment ago, and be open again after a crash.
 */
import type { Finding } from '../core/attempts/reports.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { Backend, OtherExecution } from '../core/ports/backend.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { commanderOf } from '../core/state/state.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { Cause } from '../model/causes.ts';
import { toOrchdError } from '../model/errors.ts';
import type {
  BackendReconciliation,
  ReconciledAttempt,
  ReconcileFinding,
  ReconcileReport,
} from '../model/http/control.ts';
import type { AttemptRecord, Change } from '../model/records.ts';
import { type AttemptState, isOpen } from '../model/states.ts';
import type { Acknowledgements } from './acknowledgements.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { BrainClock } from './brain-clock.ts';
import type { EffectRunner } from './effect-runner.ts';
import type { Inspector } from './inspector.ts';
import type { Loop } from './loop.ts';

export interface ReconciliationParts {
  readonly env: Pick<Env, 'clock'>;
  readonly engine: Engine;
  readonly loop: Pick<Loop, 'ask' | 'post' | 'durable'>;
  readonly clock: Pick<BrainClock, 'now'>;
  readonly backends: BackendDirectory;
  readonly runner: EffectRunner;
  readonly inspector: Inspector;
  readonly acks: Acknowledgements;
  readonly logger: Logger | undefined;
  /** `recovery.orphan_reconciliation`: whether it is done at the start. */
  readonly atStart: boolean;
}

/** The time between two looks at an execution that no open attempt knows. */
const GRACE_MS = 10_000;
/** The time between two tries at the start with a backend that does not answer. */
const RETRY_MS = 10_000;
const MAX_LISTED = 1000;
const MAX_REPORTS = 10;

/** A report while it is being made. */
interface OpenReport extends Omit<ReconcileReport, 'backends'> {
  readonly backends: Entry[];
}

interface Entry extends Pick<BackendReconciliation, 'backend' | 'at' | 'answered'> {
  problem?: string;
  readonly counts: Record<string, number>;
  unknown_running: number;
  readonly attempts: ReconciledAttempt[];
}

/** An execution that no open attempt knew at the first look. */
interface Suspect {
  readonly backend: string;
  readonly token: string;
  /** By the monotonic clock. */
  readonly since: number;
  readonly entry: Entry;
}

export class Reconciliation {
  readonly #parts: ReconciliationParts;
  /** The registry that each backend had when it was reconciled last. */
  readonly #done = new Map<string, string>();
  /** Backends whose last try has failed, with the time of the next one by the monotonic clock. */
  readonly #failed = new Map<string, number>();
  readonly #suspects = new Map<string, Suspect>();
  /** The tokens about which a comparison has found something that is not durable yet. */
  readonly #settling = new Set<string>();
  /** The tokens that are being killed to find out whether their attempts ran. */
  readonly #uncertain = new Set<string>();
  readonly #reports: OpenReport[] = [];

  constructor(parts: ReconciliationParts) {
    this.#parts = parts;
  }

  /** The report of the start and the last ones that were ordered. */
  get reports(): readonly ReconcileReport[] {
    return this.#reports.map((report) => ({ ...report, unanswered: this.#unanswered() }));
  }

  /** At every sweep: reconciles backends that have not been yet, and looks again at executions that nobody knows. */
  sweep(): void {
    const { atStart, backends } = this.#parts;
    if (atStart) for (const backend of backends.values()) this.#first(backend);
    // Workers come and go under new names.
    for (const name of this.#done.keys()) if (!backends.get(name)) this.#done.delete(name);
    for (const name of this.#failed.keys()) if (!backends.get(name)) this.#failed.delete(name);
    this.#checkSuspects();
  }

  /** C4: adds attempts that were given up, or are held, without a comparison to the report of the start. */
  changed(changes: readonly Change[]): void {
    for (const { kind, id, cause, after } of changes) {
      if (kind !== 'attempt' || !after || this.#settling.has(id)) continue;
      const found = this.#laterFinding(id, after, cause);
      if (found) this.#addLater(id, after, found);
      if (found || !isOpen(after.state)) this.#uncertain.delete(id);
    }
  }

  /**
   * While the first try is under way no attempt of the backend is inspected by itself, so that the report names them all.
   * If it fails, single inspections find out whether the backend is lost, and it is tried again beside them.
   */
  static isFirstUnderWay(runner: EffectRunner, backend: string): boolean {
    return runner.isUnderWay(`reconcile ${backend}`);
  }

  #first(backend: Backend): void {
    const { name, registry } = backend.info;
    if (!this.#mayAsk(backend) || this.#done.get(name) === registry) return;
    const now = this.#parts.env.clock.monotonic();
    const nextTry = this.#failed.get(name);
    if (nextTry !== undefined && now < nextTry) return;
    const label = nextTry === undefined ? 'reconcile' : 'reconcile again';
    let isTried = false;
    this.#parts.runner.run(`${label} ${name}`, {
      // One try: the next sweep repeats it.
      isDue: () => !isTried,
      attempt: async () => {
        isTried = true;
        this.#failed.set(name, now + RETRY_MS);
        await this.#reconcile(backend, this.#startReport());
        this.#failed.delete(name);
        return true;
      },
    });
  }

  /** Reconciles all backends now, by order of an operator. */
  async run(by: string): Promise<ReconcileReport> {
    const report = this.#begin({ trigger: 'operator', by });
    const { backends, engine } = this.#parts;
    const all = [...backends.values()].filter(
      ({ info }) => info.keepsResults && !engine.queue.fleet.isAway(info.name),
    );
    await Promise.all(
      all.map(async (backend) => {
        try {
          await this.#reconcile(backend, report);
        } catch (error) {
          const entry = this.#entry(backend.info.name, false);
          entry.problem = toOrchdError(error).message;
          this.#list(entry, report);
        }
      }),
    );
    return { ...report, unanswered: this.#unanswered() };
  }

  /** A backend in this process, or one that cannot be reached, has nothing to be asked for. */
  #mayAsk({ info }: Backend): boolean {
    const known = this.#parts.engine.queue.fleet.backends.get(info.name);
    return info.keepsResults && known !== undefined && !known.away && info.outage === undefined;
  }

  async #reconcile(backend: Backend, report: OpenReport): Promise<void> {
    const { inspector, engine } = this.#parts;
    const { name } = backend.info;
    const asked = this.#askedOn(name);
    const inspection = await inspector.inspect(
      asked.map(({ token }) => token),
      backend,
    );
    if (!inspector.isOwn(backend, inspection)) return;
    this.#done.set(name, inspection.registry);
    const entry = this.#entry(name, true);
    const settle = async ({ token }: JobEntry): Promise<void> => {
      const job = engine.state.open.get(token);
      if (!job?.open || isBeingOffered(job.open, engine)) return;
      const before = job.open;
      await this.#settle(job, before, await inspector.finding(job, before, inspection), entry);
    };
    // All at once, so that they share their commits.
    await Promise.all(asked.map(settle));
    this.#suspect(name, inspection.others ?? [], entry);
    this.#list(entry, report);
    this.#tell(entry, report);
  }

  #list(entry: Entry, { backends }: OpenReport): void {
    backends.push(entry);
    if (backends.length > MAX_LISTED) backends.shift();
  }

  /** The open attempts on a backend, without those that are being offered or killed: their answers are under way. */
  #askedOn(name: string): JobEntry[] {
    const { engine } = this.#parts;
    return [...engine.state.open.values()].filter(
      ({ open }) => open?.backend === name && !open.kill && !isBeingOffered(open, engine),
    );
  }

  async #settle(job: JobEntry, before: AttemptRecord, finding: Finding, entry: Entry): Promise<void> {
    const { loop, engine } = this.#parts;
    const { token } = job;
    this.#settling.add(token);
    await loop.ask({ type: 'found', token, finding }).finally(() => this.#settling.delete(token));
    if (finding.is === 'forgotten' && job.open?.kill && job.token === token) {
      // The answer to the kill decides.
      this.#uncertain.add(token);
      return;
    }
    const isKnown = before.state === 'accepted' && before.epoch === engine.state.brain?.epoch;
    const found = finding.is === 'forgotten' ? unknownResult(job) : RESULTS[finding.is];
    this.#count(entry, token, job.ask.tenant, found === 'reattached' && isKnown ? 'running' : found);
  }

  #laterFinding(token: string, { state }: AttemptRecord, cause: Cause): ReconcileFinding | undefined {
    if (typeof cause === 'object') {
      if (cause.is !== 'on-unknown' || state !== 'abandoned') return undefined;
      return cause.policy === 'retry' ? 'retried' : 'failed';
    }
    // An attempt that is given up in the same step is not open any more.
    const isHeld = cause === 'forgotten' && this.#parts.engine.state.open.has(token);
    if (isHeld) return 'held';
    return this.#uncertain.has(token) ? AFTER_KILL[state] : undefined;
  }

  #addLater(token: string, { backend, job }: AttemptRecord, found: ReconcileFinding): void {
    const report = this.#startReport();
    const known = report.backends.findLast((each) => each.backend === backend);
    const entry = known ?? this.#entry(backend, true);
    if (!known) this.#list(entry, report);
    this.#count(entry, token, this.#parts.engine.state.jobs.get(job)?.ask.tenant ?? '', found);
    if (CERTAIN.has(found)) return;
    this.#parts.logger?.warn('nobody knows whether an attempt ran', {
      backend,
      token_id: token,
      reason: found,
    });
  }

  /** C2: the first look. */
  #suspect(backend: string, others: readonly OtherExecution[], entry: Entry): void {
    const { engine, env } = this.#parts;
    const ended: string[] = [];
    for (const { token, isRunning } of others) {
      if (engine.state.open.has(token)) continue;
      if (!isRunning) ended.push(token);
      else {
        entry.unknown_running++;
        const key = `${backend} ${token}`;
        if (!this.#suspects.has(key))
          this.#suspects.set(key, { backend, token, since: env.clock.monotonic(), entry });
      }
    }
    this.#acknowledge(backend, ended);
  }

  /** Repeats acknowledgements that were lost (C5). */
  #acknowledge(backend: string, tokens: readonly string[]): void {
    const { loop, engine, acks } = this.#parts;
    loop.durable(engine.state.seq).then(() => {
      for (const token of tokens) acks.send(backend, token);
    }, ignore);
  }

  /** C2: the second look, and the end of what still runs. */
  #checkSuspects(): void {
    const { env, runner, backends } = this.#parts;
    for (const [key, suspect] of this.#suspects) {
      if (env.clock.monotonic() - suspect.since < GRACE_MS) continue;
      const backend = backends.get(suspect.backend);
      if (!backend) {
        this.#suspects.delete(key);
        continue;
      }
      runner.run(`end ${key}`, {
        isDue: () => this.#suspects.has(key),
        attempt: async () => {
          const isOver = await this.#endIfUnknown(suspect, backend);
          if (isOver) this.#suspects.delete(key);
          return isOver || undefined;
        },
      });
    }
  }

  /** Returns whether nothing more has to be done about it. */
  async #endIfUnknown({ token, entry }: Suspect, backend: Backend): Promise<boolean> {
    const { inspector, engine, loop } = this.#parts;
    if (engine.state.open.has(token)) return true;
    await loop.durable(engine.state.seq);
    const inspection = await inspector.inspect([], backend);
    if (!inspector.isOwn(backend, inspection)) return true;
    const isRunning = inspection.others?.some((other) => other.token === token && other.isRunning);
    if (!isRunning || engine.state.open.has(token)) return true;
    const reply = await backend.kill(token, commanderOf(engine.state), 'end');
    if (reply.is === 'stopping' || reply.is === 'running') return false;
    this.#count(entry, token, '', 'killed');
    this.#parts.logger?.warn('an execution that no open attempt knows was ended', {
      backend: backend.info.name,
      token_id: token,
    });
    this.#keep(entry);
    return true;
  }

  #count(entry: Entry, token: string, tenant: string, found: ReconcileFinding): void {
    entry.counts[found] = (entry.counts[found] ?? 0) + 1;
    if (found !== 'running' && entry.attempts.length < MAX_LISTED)
      entry.attempts.push({ token, tenant, found });
  }

  #tell(entry: Entry, { trigger }: ReconcileReport): void {
    const { logger } = this.#parts;
    const isEmpty = Object.keys(entry.counts).length === 0 && entry.unknown_running === 0;
    if (isEmpty && trigger === 'start') return;
    logger?.info('a backend was reconciled', {
      backend: entry.backend,
      count: Object.values(entry.counts).reduce((sum, each) => sum + each, 0),
      reason: Object.entries(entry.counts)
        .map(([found, count]) => `${found} ${count}`)
        .join(', '),
    });
    this.#keep(entry);
  }

  /** Writes it to the audit trail. */
  #keep({ backend, counts, unknown_running: unknownRunning }: Entry): void {
    this.#parts.loop.post({ type: 'reconciled', backend, counts: { ...counts }, unknownRunning });
  }

  #startReport(): OpenReport {
    return this.#reports.find(({ trigger }) => trigger === 'start') ?? this.#begin({ trigger: 'start' });
  }

  #begin(how: Pick<ReconcileReport, 'trigger' | 'by'>): OpenReport {
    const report: OpenReport = { begun_at: this.#parts.clock.now(), ...how, backends: [], unanswered: 0 };
    this.#reports.push(report);
    if (this.#reports.length > MAX_REPORTS) {
      const oldest = this.#reports.findIndex(({ trigger }) => trigger === 'operator');
      this.#reports.splice(oldest, 1);
    }
    return report;
  }

  #entry(backend: string, answered: boolean): Entry {
    return { backend, at: this.#parts.clock.now(), answered, counts: {}, unknown_running: 0, attempts: [] };
  }

  #unanswered(): number {
    const { state } = this.#parts.engine;
    let count = 0;
    for (const { open } of state.open.values()) if (open && open.epoch !== state.brain?.epoch) count++;
    return count;
  }
}

const RESULTS: Readonly<Record<Exclude<Finding['is'], 'forgotten'>, ReconcileFinding>> = {
  running: 'reattached',
  ended: 'collected',
  absent: 'not_run',
  conflict: 'not_run',
};

/** What a kill has found out about an attempt that may not have run, by the state that its answer led to. */
const AFTER_KILL: Readonly<Partial<Record<AttemptState, ReconcileFinding>>> = {
  accepted: 'reattached',
  ended: 'collected',
  abandoned: 'not_run',
};

const CERTAIN: ReadonlySet<ReconcileFinding> = new Set(Object.values(AFTER_KILL));

/** What the policy for unknown outcomes has made of a job. */
function unknownResult({ job }: JobEntry): ReconcileFinding {
  if (job.state === 'stale') return 'held';
  return job.state === 'queued' || job.state === 'claimed' || job.state === 'running' ? 'retried' : 'failed';
}

const isBeingOffered = (open: AttemptRecord, { state }: Engine): boolean =>
  open.state === 'intended' && open.epoch === state.brain?.epoch;

function ignore(): void {}
