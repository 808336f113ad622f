/**
 * What an executor has done, in its own append-only file. The checks read it as the other side's account: it is
 * never asked through the brain.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { ExecutionOutcome } from '../../src/core/ports/backend.ts';
import { AppendFile, readLines } from './append-file.ts';

/** The course of an execution, decided when it starts so that a restart of the brain does not change it. */
export interface Plan {
  /** Duration of the execution. */
  readonly ms: number;
  /** Runs until it is killed, or until the executor is opened to finish what it has. */
  readonly hold: boolean;
  readonly outcome: ExecutionOutcome;
}

export type LedgerLine = { readonly at: number } & (
  | { readonly is: 'opened'; readonly registry: string }
  | { readonly is: 'epoch'; readonly owner: string; readonly epoch: number }
  | { readonly is: 'busy' | 'tombstone' | 'ack'; readonly token: string }
  | { readonly is: 'start'; readonly token: string; readonly plan: Plan }
  | { readonly is: 'end'; readonly token: string; readonly outcome: ExecutionOutcome }
  /** The brain did something that no brain may do. */
  | { readonly is: 'violation'; readonly token: string; readonly what: string }
);

export const ledgerPath = (folder: string): string => join(folder, 'ledger.jsonl');

export const readLedger = (folder: string): LedgerLine[] => readLines<LedgerLine>(ledgerPath(folder));

export const openLedger = (folder: string): AppendFile => new AppendFile(ledgerPath(folder));

/** The payload of a job of the workload: what the executor shall do with it. */
export interface Work {
  readonly ms?: number;
  readonly hold?: boolean;
  /** Attempts up to this one fail; `final` makes the failure one that is not worth another try. */
  readonly fails?: number;
  readonly final?: boolean;
  /** Attempts up to this one are turned away. */
  readonly busy?: number;
  readonly resultBytes?: number;
  /** The tokens of the answer, which the executor tells; without them it tells no counts. */
  readonly tokens?: number;
  readonly text?: string;
  /** The first attempt ends by waiting for so many jobs, whose ids are that of the job with a number behind it. */
  readonly parts?: number;
  /** It goes on after this time at the latest. */
  readonly waitMs?: number;
  /** The size of what is kept over the wait. */
  readonly stateBytes?: number;
}

/** The work that a payload asks for: the payload itself, or the text of its prompt. */
export function workOf(payloadText: string): Work {
  const payload = JSON.parse(payloadText) as Work & { readonly prompt?: string };
  return payload.prompt === undefined ? payload : (JSON.parse(payload.prompt) as Work);
}

/** The result names its token and the payload it was made from, so that a mix-up shows. */
export function resultOf(token: string, payloadText: string, bytes: number): string {
  const payload = createHash('sha256').update(payloadText).digest('hex').slice(0, 16);
  return JSON.stringify({ token, payload, text: 'r'.repeat(bytes) });
}
