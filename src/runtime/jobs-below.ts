/** Prepares the jobs below a job that waits, which its execution asks for. */
import type { Submission } from '../core/admission/submission.ts';
import type { NewJob } from '../core/ports/new-job.ts';
import type { Timers } from '../kit/env/env.ts';
import { ONE_TURN_BYTES, type OwnTurns } from '../kit/slices.ts';
import type { Composition } from '../model/composed.ts';
import { OrchdError } from '../model/errors.ts';
import type { AskRecord } from '../model/records.ts';
import type { SubmitRequest } from '../model/submit.ts';
import { composedPayload, type StoredList } from './growing-lists.ts';
import type { Children, WantedJobs } from './outcomes.ts';
import { type Caller, inSession, type Prepared } from './prepare.ts';
import { preparedNow } from './prepare-all.ts';
import { TracesBelow } from './traces-below.ts';

/** The check of a request takes as long as that of so many characters, however short its payload is. */
const CHARS_PER_REQUEST = 500;

export interface JobsBelowParts {
  readonly timers: Timers;
  readonly turns: OwnTurns;
  readonly newId: () => string;
  readonly maxTries: number;
  /** The submission, if its payload is small and nothing must be read for it. */
  readonly storeNow: (prepared: Prepared) => Submission | undefined;
  /** Stores payloads and looks up the history; `composed` has the payloads that are composed of others. */
  readonly store: (
    prepared: readonly (Prepared | OrchdError)[],
    composed: (at: number) => Composition | undefined,
  ) => Promise<readonly (Submission | OrchdError)[]>;
}

export class JobsBelow implements Children {
  readonly #parts: JobsBelowParts;
  readonly #traces = new TracesBelow();
  /** Characters that were checked in the present turn. */
  #charsInTurn = 0;

  constructor(parts: JobsBelowParts) {
    this.#parts = parts;
  }

  /**
   * Checks the requests and stores their bodies; those that are refused at once come as errors. Waits that begin together
   * are checked in one turn, up to a size: in one turn each, they would take as many commits.
   */
  async below(
    ask: AskRecord,
    wanted: WantedJobs,
    stored: readonly StoredList[],
  ): Promise<readonly (NewJob | OrchdError)[]> {
    if (this.#charsInTurn > ONE_TURN_BYTES) await this.#parts.turns.next();
    const payloadOf = (at: number): unknown => (wanted.requests[at] as SubmitRequest).payload;
    return this.#parts.store(this.#prepared(ask, wanted), (at) => composedPayload(payloadOf(at), stored));
  }

  now(ask: AskRecord, wanted: WantedJobs): readonly NewJob[] | undefined {
    if (!areNew(ask, wanted) || this.#charsInTurn > ONE_TURN_BYTES) return undefined;
    const jobs: NewJob[] = [];
    for (const each of this.#prepared(ask, wanted)) {
      const job = each instanceof OrchdError ? undefined : this.#parts.storeNow(each);
      if (!job) return undefined;
      jobs.push(job);
    }
    return jobs;
  }

  #prepared(ask: AskRecord, wanted: WantedJobs): readonly (Prepared | OrchdError)[] {
    const { tenant, submittedBy, spec, correlationId } = ask;
    const caller: Caller = {
      tenant,
      submittedBy,
      principal: spec.agent,
      isWait: true,
      ...(correlationId !== undefined && { correlationId }),
      trace: this.#traces.of(ask),
    };
    const { newId, maxTries } = this.#parts;
    const prepared = preparedNow(wanted.requests as readonly SubmitRequest[], caller, newId, maxTries);
    this.#noteChars(prepared);
    const isNewId = areNew(ask, wanted);
    return prepared.map((each) =>
      each instanceof OrchdError ? each : { ...inSession(each, spec.session_id), isNewId },
    );
  }

  #noteChars(prepared: readonly (Prepared | OrchdError)[]): void {
    if (this.#charsInTurn === 0)
      this.#parts.timers.soon(() => {
        this.#charsInTurn = 0;
      });
    for (const each of prepared)
      this.#charsInTurn += CHARS_PER_REQUEST + ('payloadText' in each ? each.payloadText.length : 0);
  }
}

/** An id that orchd made is unique, and so are those that the job derives from it. */
const areNew = ({ hash }: AskRecord, { newIds }: WantedJobs): boolean => newIds && hash === undefined;
