/**
 * A run as a file: everything that replay needs, in one JSON value with a version. Calls of the model repeat the messages
 * of the call before, so a file has each message once.
 */
import { Type } from 'typebox';
import { checker } from '../../kit/check.ts';
import { AgentDefinition, RunRequest } from '../../model/agent.ts';
import { OrchdError } from '../../model/errors.ts';
import { SAVED_RUN_VERSION } from '../../model/http/replays.ts';
import { decisionsOf } from './decisions.ts';
import { firstDifference } from './difference.ts';
import type { RecordedCall, RecordedHead, RunRecords } from './recorded-run.ts';

interface SavedCall extends RecordedCall {
  /** The messages of the payload: the first ones of the model's call before this one, and further ones. */
  readonly messages?: { readonly same: number; readonly more: readonly unknown[] };
}

export interface SavedRunFile {
  readonly orchd_run: typeof SAVED_RUN_VERSION;
  /** The currency of the costs of its calls. */
  readonly currency?: string;
  readonly head: RecordedHead;
  readonly calls: readonly SavedCall[];
}

/** The run with the calls that its decisions asked for. Throws RUN_GONE. `turn` is awaited between two decisions. */
export async function savedRun(
  { head, calls }: RunRecords,
  turn: () => Promise<void> | void = () => undefined,
): Promise<SavedRunFile> {
  const saved: SavedCall[] = [];
  let before: readonly unknown[] = [];
  const noted: RunRecords = {
    head,
    calls: async (ids) => {
      const found = await calls(ids);
      for (const call of found) {
        if (!call) continue;
        saved.push(packed(call, before));
        before = messagesOf(call.payload) ?? before;
      }
      return found;
    },
  };
  for await (const _ of decisionsOf(noted, head.record)) await turn();
  return { orchd_run: SAVED_RUN_VERSION, head, calls: saved };
}

const messagesOf = (payload: unknown): readonly unknown[] | undefined => {
  const { messages } = (payload ?? {}) as { readonly messages?: unknown };
  return Array.isArray(messages) ? messages : undefined;
};

function packed(call: RecordedCall, before: readonly unknown[]): SavedCall {
  const messages = messagesOf(call.payload);
  if (!messages) return call;
  const differs = messages.findIndex((message, at) => firstDifference(before[at], message, ''));
  const same = differs < 0 ? messages.length : differs;
  const { messages: _, ...payload } = call.payload as { readonly messages: unknown };
  return { ...call, payload, messages: { same, more: messages.slice(same) } };
}

const checkFile = checker(
  Type.Object({
    orchd_run: Type.Literal(SAVED_RUN_VERSION),
    currency: Type.Optional(Type.String()),
    head: Type.Object({
      run_id: Type.String(),
      priority: Type.Enum(['interactive', 'batch']),
      created_at: Type.Number(),
      request: RunRequest,
      record: Type.Object({
        v: Type.Literal(1),
        agent: AgentDefinition,
        heard: Type.Integer(),
        decisions: Type.Integer({ minimum: 0 }),
        inputs: Type.Array(Type.Object({ n: Type.Integer() })),
      }),
      conversation: Type.Array(Type.Object({})),
      steps: Type.Array(Type.Object({ event: Type.String() })),
    }),
    calls: Type.Array(Type.Object({ job_id: Type.String(), type: Type.String(), state: Type.String() })),
  }),
);

/** The calls in a file, with all messages. */
export interface SavedRecords extends RunRecords {
  readonly all: readonly RecordedCall[];
  readonly currency: string | undefined;
}

/** Throws INVALID_PARAMS for a value that is no saved run, or one of a version that is not known here. */
export function savedRecords(value: unknown): SavedRecords {
  const { orchd_run: version } = (value ?? {}) as { readonly orchd_run?: unknown };
  if (typeof version === 'number' && version > SAVED_RUN_VERSION)
    throw new OrchdError('INVALID_PARAMS', `it was saved by a newer orchd (version ${version} of the form)`, {
      field: 'orchd_run',
    });
  const { head, calls, currency } = checkFile(value) as unknown as SavedRunFile;
  let before: readonly unknown[] = [];
  const all = calls.map(({ messages, ...call }): RecordedCall => {
    if (!messages) return call;
    before = [...before.slice(0, messages.same), ...messages.more];
    return { ...call, payload: { ...(call.payload as object), messages: before } };
  });
  const known = new Map(all.map((call) => [call.job_id, call]));
  return { head, all, currency, calls: async (ids) => ids.map((id) => known.get(id)) };
}
