/** From the outcome that an executor reports to the one that is recorded: its result as JSON text, large ones in a blob. */
import type { Forgotten } from '../core/attempts/reports.ts';
import { waitStateOf } from '../core/attempts/waiting.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { AskedWait, ExecutionOutcome, Outcome, SessionList } from '../core/ports/backend.ts';
import type { NewJob } from '../core/ports/new-job.ts';
import type { Env, Timers } from '../kit/env/env.ts';
import { isJsonInSlices } from '../kit/json-parser.ts';
import { inSlices } from '../kit/slices.ts';
import type { BlobRef, Body } from '../model/body.ts';
import type { BlobPart } from '../model/composed.ts';
import { type ErrorCode, type ErrorInfo, errorInfo, OrchdError } from '../model/errors.ts';
import { type AskRecord, uidOf } from '../model/records.ts';
import { MAX_CHILDREN, type RefusedChild } from '../model/waiting.ts';
import { type Bodies, ownerOf } from './bodies.ts';
import type { EffectRunner } from './effect-runner.ts';
import {
  grown,
  type KeptState,
  keepState,
  type Lists,
  plainText,
  type StoredList,
  storedList,
} from './growing-lists.ts';

/** The jobs that a job wants to wait for. */
export interface WantedJobs {
  readonly requests: readonly unknown[];
  /** See AskedWait. */
  readonly newIds: boolean;
}

/** Checks requests for jobs below a job, and stores their bodies. */
export interface Children {
  below(
    ask: AskRecord,
    wanted: WantedJobs,
    stored: readonly StoredList[],
  ): Promise<readonly (NewJob | OrchdError)[]>;
  /** The same at once; undefined where one is refused, or something must be read or stored first. */
  now(ask: AskRecord, wanted: WantedJobs): readonly NewJob[] | undefined;
}

/** The id that a request gives to its job, for the message of a refusal. */
const idOf = (request: unknown): string => String((request as { job_id?: unknown } | null)?.job_id ?? '');

export interface OutcomesParts {
  readonly engine: Engine;
  readonly bodies: Bodies;
  readonly runner: EffectRunner;
  readonly env: Pick<Env, 'timers'>;
  readonly children: Children;
}

export class Outcomes {
  readonly #bodies: Bodies;
  readonly #runner: EffectRunner;
  readonly #timers: Timers;

  readonly #parts: OutcomesParts;

  constructor(parts: OutcomesParts) {
    this.#parts = parts;
    this.#bodies = parts.bodies;
    this.#runner = parts.runner;
    this.#timers = parts.env.timers;
  }

  /** At once where the result needs no blob. A result that is not JSON is an error: it would break its readers. */
  recorded(outcome: ExecutionOutcome, ask: AskRecord): Outcome | Promise<Outcome> {
    if (outcome.ok === 'waits') return this.#waitsNow(outcome, ask) ?? orFailed(this.#waits(outcome, ask));
    if (outcome.ok !== true) return this.#failed(outcome, ask);
    const { resultText, said } = outcome;
    if (said) return orFailed(this.#said(said, outcome, ask));
    const result = this.#bodies.inline(resultText, ownerOf(ask));
    if (result === undefined) return this.#stored(outcome, ask);
    return isJson(resultText) ? succeeded(result, outcome) : NOT_JSON;
  }

  /** The same without a turn of its own, where neither the state nor the payload of a job below needs a blob. */
  #waitsNow(outcome: AskedWait, ask: AskRecord): Outcome | undefined {
    const { stateText, lists, continues: _, children, newIds = false, ...rest } = outcome;
    const last = lists && this.#lastState(ask);
    if (children.length > MAX_CHILDREN || typeof last === 'object') return undefined;
    const text = lists ? listedText(lists, stateText) : stateText;
    const state = text === undefined ? undefined : this.#bodies.inline(text, ownerOf(ask));
    if (state === undefined) return undefined;
    const jobs = this.#parts.children.now(ask, { requests: children, newIds });
    return jobs && { ...rest, state, children: jobs };
  }

  /**
   * Checks the jobs below, and stores their bodies and the state of the job: the engine then needs no more than records.
   * The state is not parsed: the backend has made its text from a JSON value, and only it reads it again.
   */
  async #waits(outcome: AskedWait, ask: AskRecord): Promise<Outcome> {
    const { stateText, lists, continues, children, newIds = false, ...rest } = outcome;
    if (children.length > MAX_CHILDREN) return TOO_MANY_CHILDREN;
    const { state, stored } = lists
      ? await this.#kept(() => this.#keepLists(lists, stateText, ask, continues))
      : { state: await this.#keep(stateText, ask), stored: [] };
    const prepared = await this.#kept(() =>
      this.#parts.children.below(ask, { requests: children, newIds }, stored),
    );
    const refused: RefusedChild[] = [];
    for (const [at, each] of prepared.entries())
      if (each instanceof OrchdError)
        refused.push({ id: idOf(children[at]), error: await this.sealed(each.info(), ask) });
    return {
      ...rest,
      state,
      children: prepared.filter((each): each is NewJob => !(each instanceof OrchdError)),
      ...(refused.length > 0 && { refused }),
    };
  }

  async #keep(text: string, ask: AskRecord): Promise<Body> {
    const owner = ownerOf(ask);
    return this.#bodies.inline(text, owner) ?? (await this.#kept(() => this.#bodies.store(text, owner)));
  }

  /** What is recorded of an execution of which nobody knows how it ended; `why` is what its executor says about that. */
  async forgotten(why: string | undefined, ask: AskRecord): Promise<Forgotten> {
    const error = why === undefined ? undefined : await this.sealed(errorInfo('UNKNOWN_OUTCOME', why), ask);
    return { is: 'forgotten', error, isGone: true };
  }

  #failed(outcome: Failure, ask: AskRecord): Outcome | Promise<Outcome> {
    if (outcome.ok === 'cancelled' || ask.spec.session_id === undefined) return outcome;
    return this.sealed(outcome.error, ask).then((error) => ({ ...outcome, error }));
  }

  /** The error as it is recorded; while the disk is full the outcome waits here. */
  async sealed(error: ErrorInfo, { tenant, spec: { session_id: session } }: AskRecord): Promise<ErrorInfo> {
    if (session === undefined) return error;
    return this.#kept(() => this.#parts.bodies.seals.sealError(error, { tenant, session }));
  }

  #keepLists(
    lists: Lists,
    restText: string,
    ask: AskRecord,
    continues: AskedWait['continues'],
  ): Promise<KeptState> {
    const stored = continues && this.#sessionMessages(ask, continues.from);
    return keepState(this.#bodies, {
      lists,
      restText,
      last: this.#lastState(ask),
      ...(stored && { begun: { [continues.name]: stored } }),
      owner: ownerOf(ask),
      known: this.#results(ask),
    });
  }

  /** Stores the messages of a session with those of the run that has answered. */
  async #said({ name, values, from }: SessionList, success: Success, ask: AskRecord): Promise<Outcome> {
    const last = this.#lastState(ask);
    const messages = await this.#kept(async () => {
      const kept = last === undefined ? undefined : await storedList(this.#bodies, last, name);
      return grown(this.#bodies, kept ?? this.#sessionMessages(ask, from), values, ownerOf(ask));
    });
    const result = await this.#keep(success.resultText, ask);
    return { ...succeeded(result, success), ...(messages && { said: { messages, from } }) };
  }

  /** The state of the last wait of a job that has an open attempt. */
  #lastState({ tenant, id }: AskRecord): Body | undefined {
    const { state } = this.#parts.engine;
    const entry = state.jobs.get(uidOf(tenant, id));
    return entry && waitStateOf(state, entry);
  }

  /** The blobs of the results that the job has waited for, which it may say again. */
  #results({ tenant, id, spec }: AskRecord): readonly BlobRef[] {
    const { jobs } = this.#parts.engine.state;
    const ids = jobs.get(uidOf(tenant, id))?.job.wait?.children ?? [];
    return ids.flatMap((each) => {
      const child = jobs.get(uidOf(tenant, each));
      const result = child?.job.result;
      // The text of another session is sealed with the key of that session, so it cannot be shared.
      return typeof result === 'object' && child?.ask.spec.session_id === spec.session_id ? [result] : [];
    });
  }

  /** The stored messages of the job's session, if there are as many as `from`. */
  #sessionMessages({ tenant, spec }: AskRecord, from: number): BlobPart | undefined {
    if (spec.session_id === undefined) return undefined;
    const messages = this.#parts.engine.state.sessionOf(tenant, spec.session_id)?.messages;
    return messages?.values === from ? messages : undefined;
  }

  /** Puts a large result into a blob; while the disk is full the outcome waits here, and nothing is lost. */
  async #stored(success: Success, ask: AskRecord): Promise<Outcome> {
    const { resultText } = success;
    if (!(await inSlices(isJsonInSlices(resultText), this.#timers))) return NOT_JSON;
    return succeeded(await this.#kept(() => this.#bodies.store(resultText, ownerOf(ask))), success);
  }

  /** Tries again while the disk is full. */
  async #kept<T>(attempt: () => Promise<T>): Promise<T> {
    const kept = await this.#runner.repeat({
      isDue: () => true,
      attempt: async () => ({ value: await attempt() }),
      onFailure: (error) => {
        if (!(error instanceof OrchdError) || !error.retriable) throw error;
      },
    });
    if (kept) return kept.value;
    throw new OrchdError('SHUTTING_DOWN');
  }
}

type Success = Extract<ExecutionOutcome, { ok: true }>;
type Failure = Exclude<ExecutionOutcome, { ok: true } | { ok: 'waits' }>;

const NOT_JSON: Outcome = { ok: false, error: errorInfo('WORKER_PROTOCOL', 'the result is not JSON') };

/** Refused as a whole: a note for each job that is too many would make a record of megabytes. */
const TOO_MANY_CHILDREN: Outcome = {
  ok: false,
  error: errorInfo('TOO_LARGE', `a job waits for at most ${MAX_CHILDREN} others at once`),
};

/** The errors of bodies that the outcome needs and that are gone or damaged, and of lists that cannot be stored. */
const FAULTS: readonly ErrorCode[] = ['NOT_FOUND', 'STORE_CORRUPT', 'INVALID_PARAMS'];

/** The outcome, or a failure of the job with one of FAULTS: an error that is thrown here ends the brain. */
async function orFailed(recording: Promise<Outcome>): Promise<Outcome> {
  try {
    return await recording;
  } catch (error) {
    if (!(error instanceof OrchdError && FAULTS.includes(error.code))) throw error;
    return { ok: false, error: error.info() };
  }
}

/** Undefined for lists that cannot be written: #waits says what is wrong with them. */
function listedText(lists: Lists, stateText: string): string | undefined {
  try {
    return plainText(lists, stateText);
  } catch {
    return undefined;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function succeeded(result: Body, { usage, label, thread }: Success): Extract<Outcome, { ok: true }> {
  const outcome = usage ? ({ ok: true, result, usage } as const) : ({ ok: true, result } as const);
  if (label === undefined && !thread) return outcome;
  return { ...outcome, ...(label !== undefined && { label }), ...(thread && { thread }) };
}
