/**
 * One scan of a module: runs it, and submits what it proposes while it still runs. The brain holds one piece of output
 * at a time; the module waits while that is submitted.
 */
import { ONE_TURN_BYTES, ownTurns } from '../../kit/slices.ts';
import { type ErrorCode, OrchdError, toOrchdError } from '../../model/errors.ts';
import type { Submitted } from '../../model/http/jobs.ts';
import type { Caller } from '../../runtime/prepare.ts';
import { parseJsonBody, parseLargeBody } from '../../wire/json-body.ts';
import { type Line, LineSplitter } from '../../wire/line-splitter.ts';
import { ModuleProcess, moduleMark, tooLate } from './module-process.ts';
import type { ModuleParts } from './parts.ts';
import { type Proposal, principalOf, proposalOf } from './proposal.ts';
import { ScanCounts } from './scan-counts.ts';
import type { ModuleSettings } from './settings.ts';

const MAX_LINE_BYTES = 2 ** 20;
const MAX_BULK = 500;
/** A scan with more unreadable lines is ended: reading them costs the brain time, and nothing useful comes any more. */
const MAX_GARBAGE = 10_000;

/** The brain cannot take more now: the scan ends, and the next one proposes the rest again. */
export const TRY_LATER: ReadonlySet<ErrorCode> = new Set([
  'QUEUE_FULL',
  'RATE_LIMITED',
  'STORE_BUSY',
  'STORE_FULL',
  'SERVER_BUSY',
  'SHUTTING_DOWN',
]);

export interface ScanResult {
  readonly counts: ScanCounts;
  /** Why the scan failed. */
  readonly failure: OrchdError | undefined;
  /** What was wrong with the first refused or unreadable line. */
  readonly problem: OrchdError | undefined;
  /** Why the scan was ended before its last proposal. */
  readonly cut: 'the brain is full' | 'max_proposals' | undefined;
}

export class Scan {
  readonly #parts: ModuleParts;
  readonly #settings: ModuleSettings;
  readonly #caller: Caller;
  readonly counts = new ScanCounts();
  #problem: OrchdError | undefined;
  #cut: ScanResult['cut'];

  constructor(parts: ModuleParts, settings: ModuleSettings) {
    this.#parts = parts;
    this.#settings = settings;
    const principal = principalOf(settings.name);
    this.#caller = { principal, submittedBy: principal, mustBeRunnable: true, isModule: true };
  }

  async run(signal: AbortSignal): Promise<ScanResult> {
    const { env, scope } = this.#parts;
    const { name, scanArgv, timeoutMs } = this.#settings;
    const child = new ModuleProcess(env, this.#settings, scanArgv, moduleMark(scope, name, 'scan'));
    const late = (): void => child.kill(tooLate('the scan', timeoutMs));
    const stop = (): void => child.kill(undefined);
    const cancel = env.timers.after(timeoutMs, late);
    signal.addEventListener('abort', stop);
    try {
      await this.#read(child);
    } catch (error) {
      child.kill(toOrchdError(error));
    }
    const failure = await child.ended;
    cancel();
    signal.removeEventListener('abort', stop);
    return { counts: this.counts, failure, problem: this.#problem, cut: this.#cut };
  }

  async #read(child: ModuleProcess): Promise<void> {
    const splitter = new LineSplitter(MAX_LINE_BYTES);
    for await (const piece of child.output) {
      await this.#take([...splitter.add(piece as Buffer)]);
      if (this.#cut === undefined) continue;
      child.kill(undefined);
      return;
    }
    await this.#take([...splitter.end()]);
  }

  async #take(lines: readonly Line[]): Promise<void> {
    let from = 0;
    while (from < lines.length && this.#cut === undefined) {
      const bulk = lines.slice(from, from + Math.min(MAX_BULK, this.#left));
      from += bulk.length;
      const proposals: Proposal[] = [];
      await ownTurns(this.#parts.env.timers).next();
      let isLarge = false;
      for (const line of bulk) {
        isLarge ||= (line.bytes?.length ?? 0) > ONE_TURN_BYTES;
        const proposal = await this.#parsed(line);
        if (proposal) proposals.push(proposal);
      }
      if (proposals.length > 0) await this.#submit(proposals, isLarge);
      if (this.counts.garbage > MAX_GARBAGE)
        throw new OrchdError(
          'MODULE_FAILED',
          `more than ${MAX_GARBAGE} lines are no proposals; ${this.#problem?.message}`,
        );
    }
  }

  async #parsed({ number: line, bytes }: Line): Promise<Proposal | undefined> {
    const { timers } = this.#parts.env;
    try {
      if (!bytes) throw new OrchdError('TOO_LARGE', `it is longer than ${MAX_LINE_BYTES} bytes`);
      const { value, size } =
        bytes.length <= ONE_TURN_BYTES
          ? ({ value: parseJsonBody(bytes), size: 'small' } as const)
          : await parseLargeBody([bytes], timers);
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        throw new OrchdError('INVALID_PARAMS', 'it is no JSON object');
      return await proposalOf(this.#settings.name, value as Record<string, unknown>, { line, size, timers });
    } catch (error) {
      this.counts.garbage++;
      const { code, message } = toOrchdError(error);
      this.#problem ??= new OrchdError(code, `line ${line} is no proposal: ${message}`);
      return undefined;
    }
  }

  async #submit(proposals: readonly Proposal[], isLarge: boolean): Promise<void> {
    const requests = proposals.map(({ request }) => request);
    const caller = { ...this.#caller, bodySize: isLarge ? ('large' as const) : ('small' as const) };
    let answers: readonly (Submitted | OrchdError)[];
    try {
      answers = await this.#parts.orchestrator.submitMany(requests, caller);
    } catch (error) {
      const refusal = toOrchdError(error);
      answers = proposals.map(() => refusal);
    }
    for (const [at, proposal] of proposals.entries()) this.#count(proposal, answers[at] as Submitted);
    if (this.#left <= 0) this.#cut ??= 'max_proposals';
  }

  /** Known work does not count, so that scan after scan gets further through a long list. */
  get #left(): number {
    return this.#settings.maxProposals - this.counts.accepted - this.counts.refused;
  }

  #count({ line, hasMadeId }: Proposal, answer: Submitted | OrchdError): void {
    const { counts } = this;
    if (!(answer instanceof OrchdError)) {
      counts[answer.duplicate_of === undefined ? 'accepted' : 'known']++;
    } else if (TRY_LATER.has(answer.code)) {
      counts.postponed++;
      this.#cut = 'the brain is full';
    } else if (hasMadeId && answer.code === 'JOB_CONFLICT') {
      counts.known++;
    } else {
      counts.refused++;
      this.#problem ??= new OrchdError(
        answer.code,
        `line ${line} was refused: ${answer.code}, ${answer.message}`,
      );
    }
  }
}
