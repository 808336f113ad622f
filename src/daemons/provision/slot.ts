/**
 * One of the processes of a worker pool, and its successors under the same name.
 *
 * S1  Each step is on disk before it has an effect: a start before the process, an end before the signal. The next
 *     provisioner goes on from the record.
 * S2  Under one name there is one process at a time: nothing is started while something of an earlier start lives.
 */
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { isAlive } from '../../kit/process/identity.ts';
import { findLeader, isAnyAlive, type Mark, signalMarked } from '../../kit/process/marked.ts';
import { RecordFile } from '../../kit/record-file.ts';
import { describeThrown } from '../../kit/redact.ts';
import { type ProcessExit, type SpawnSpec, spawnWorker, trimLog } from '../pool-manager/processes.ts';
import {
  logPath,
  nameMark,
  nameOf,
  type ProvisionLayout,
  recordPath,
  type SlotRecord,
  startMark,
} from './layout.ts';
import { Restarts } from './restarts.ts';
import type { SlotView } from './size-plan.ts';

const START_BYTES = 8;

export interface SlotContext {
  readonly env: Env;
  readonly layout: ProvisionLayout;
  readonly registry: string;
  readonly logger: Logger;
  /** How long a process may take to finish; undefined: as long as it takes. */
  readonly graceMs: number | undefined;
  /** A process of this provisioner has ended. */
  readonly onExit: () => void;
}

/** What is started: the command, where, and its environment without the marks. */
export type SlotCommand = Pick<SpawnSpec, 'argv' | 'cwd' | 'env'>;

export class Slot {
  readonly name: string;
  readonly #context: SlotContext;
  readonly #file: RecordFile<SlotRecord>;
  readonly #nameMark: Mark;
  readonly #restarts: Restarts;
  /** How the last process of this provisioner has ended, for the log. */
  #exit: ProcessExit | undefined;
  #isUp = false;
  /** Nothing is left of its last start. */
  #isClean = false;

  constructor(context: SlotContext, record: SlotRecord) {
    this.name = nameOf(record);
    this.#context = context;
    this.#file = new RecordFile(context.env, recordPath(context.layout, this.name), record);
    this.#nameMark = nameMark(context.registry, this.name);
    this.#restarts = new Restarts(context.env);
  }

  get record(): SlotRecord {
    return this.#file.value;
  }

  /** Its process runs, also where it is to end. */
  get lives(): boolean {
    return this.#isUp;
  }

  view(poolSince: number): SlotView {
    const { n, ending, poolSince: since } = this.record;
    const is = ending ? 'ending' : this.#isUp ? 'up' : 'down';
    return { n, is, isCurrent: since === poolSince };
  }

  /** Takes over what an earlier provisioner has started under this name. */
  async adopt(): Promise<void> {
    const { process: known } = this.record;
    const found = known ?? findLeader(this.#startMark);
    this.#isUp = found !== undefined && isAlive(found);
    if (found && !known) await this.#file.keep({ process: found });
    if (this.record.ending) await this.#tellToFinish();
  }

  /** It has ended by itself, and its pause is over. */
  get isDue(): boolean {
    return this.#isClean && !this.record.ending && this.#restarts.isDue;
  }

  /** Starts the process. Throws where the disk fails: then nothing was started. */
  async start({ argv, cwd, env }: SlotCommand): Promise<void> {
    const { layout, registry, env: own } = this.#context;
    const start = own.random.hex(START_BYTES);
    await this.#file.save({ start, process: undefined });
    this.#isClean = false;
    crashpoint('provision:before-start');
    const mark = startMark(registry, start);
    const log = logPath(layout, this.name);
    const variables = { ...env, [this.#nameMark.variable]: this.#nameMark.value };
    this.#exit = undefined;
    const spawned = await spawnWorker({ argv, cwd, env: variables, mark, log }, (exit) => {
      if (this.record.start === start) this.#exit = exit;
      this.#context.onExit();
    }).catch((error: unknown) => ({ is: 'failed' as const, why: describeThrown(error) }));
    this.#restarts.started();
    if (spawned.is === 'failed') return this.#rest(`it could not be started: ${spawned.why}`);
    crashpoint('provision:after-start');
    this.#isUp = true;
    this.#log('a process was started');
    // Where this write fails, the process is found again by its mark.
    await this.#file.keep({ process: spawned.process }).catch((error: unknown) => this.#complain(error));
  }

  /** Tells the process to finish what it has begun and to end, or ends it at once. */
  async end(how: 'finish' | 'kill'): Promise<void> {
    const { ending } = this.record;
    if (ending?.how === 'kill' || ending?.how === how) return;
    // The end goes on where the disk is full.
    await this.#file
      .keep({ ending: { at: this.#context.env.clock.now(), how, isTold: false } })
      .catch((error: unknown) => this.#complain(error));
    crashpoint('provision:before-signal');
    this.#log(how === 'kill' ? 'a process is ended at once' : 'a process is told to finish');
    await this.#tellToFinish();
  }

  /** Once: a second signal ends many programs at once. */
  async #tellToFinish(): Promise<void> {
    const { process, ending } = this.record;
    if (!this.#isUp || ending?.how !== 'finish' || ending.isTold) return;
    signalMarked(this.#startMark, process, 'SIGTERM');
    await this.#file
      .keep({ ending: { ...ending, isTold: true } })
      .catch((error: unknown) => this.#complain(error));
  }

  /** Looks at the process, and carries its end on. Resolves to false when nothing of it is left, and its name is free. */
  async look(): Promise<boolean> {
    const { process, ending } = this.record;
    const lives = process !== undefined && isAlive(process);
    if (lives) {
      this.#isUp = true;
      if (ending && this.#mustDie(ending)) this.#kill();
      return true;
    }
    if (this.#isUp) this.#ended();
    if (this.#isClean && !ending) return true;
    // Its children, and where it is to end also the commands of a consumer, do not outlive it.
    this.#isClean = !this.#isAnythingLeft();
    if (!this.#isClean) this.#kill();
    if (!this.#isClean || !ending) return true;
    crashpoint('provision:before-remove');
    await this.#file.remove();
    return false;
  }

  trimLog(): void {
    trimLog(logPath(this.#context.layout, this.name));
  }

  get #startMark(): Mark {
    return startMark(this.#context.registry, this.record.start);
  }

  #mustDie({ at, how }: NonNullable<SlotRecord['ending']>): boolean {
    const { env, graceMs } = this.#context;
    return how === 'kill' || (graceMs !== undefined && env.clock.now() - at >= graceMs);
  }

  #isAnythingLeft(): boolean {
    return (
      isAnyAlive(this.#startMark, undefined) ||
      (this.record.ending !== undefined && isAnyAlive(this.#nameMark, undefined))
    );
  }

  #kill(): void {
    const { process, ending } = this.record;
    signalMarked(this.#startMark, process, 'SIGKILL');
    if (ending) signalMarked(this.#nameMark, undefined, 'SIGKILL');
  }

  #ended(): void {
    this.#isUp = false;
    if (this.record.ending) this.#log('a process has ended');
    else this.#rest(`it has ended by itself${howIt(this.#exit)}`);
  }

  #rest(why: string): void {
    this.#restarts.failed();
    this.#context.logger.warn('a process is missing; it is started again after a pause', {
      ...this.#fields,
      reason: why,
      count: this.#restarts.failures,
    });
  }

  get #fields() {
    return { pool_id: this.record.pool, worker_id: this.name };
  }

  #log(message: string): void {
    this.#context.logger.info(message, this.#fields);
  }

  #complain(error: unknown): void {
    this.#context.logger.error('the record of a process could not be written', {
      ...this.#fields,
      reason: describeThrown(error),
    });
  }
}

const howIt = (exit: ProcessExit | undefined): string =>
  exit === undefined ? '' : exit.signal === null ? ` with code ${exit.code}` : ` by ${exit.signal}`;
