/** The bodies that records name: a store keeps each of them for as long as any record names it. */

import type { Body } from './body.ts';
import { keptBody } from './kept-body.ts';
import type { AskRecord, JobRecord } from './records.ts';
import type { SessionRecord } from './session-record.ts';

/** The records that may name bodies, by their kind. */
interface NamingRecords {
  readonly ask: Pick<AskRecord, 'payload'>;
  readonly job: JobRecord;
  readonly session: Pick<SessionRecord, 'messages' | 'metadata'>;
}

export type NamingKind = keyof NamingRecords;

const BODIES: { readonly [K in NamingKind]: (record: NamingRecords[K]) => readonly (Body | undefined)[] } = {
  ask: ({ payload }) => [payload],
  job: (job) => [keptBody(job)],
  session: ({ messages, metadata }) => [messages?.ref, metadata],
};

export const namedBodies = <K extends NamingKind>(kind: K, record: NamingRecords[K]): readonly Body[] =>
  BODIES[kind](record).filter((body) => body !== undefined);
