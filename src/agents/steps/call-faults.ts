/** Calls of tools that a model asked for and that are not made: the model is told why, and the steps of the run note it. */
import type { ToolCall } from '../../model/worker-wire.ts';
import type { StepNote } from '../run-state.ts';

/** Why a call is not made, by the code in the steps of the run. */
export const CALL_FAULTS = [
  /** The agent has no tool of this name. */
  'UNKNOWN_TOOL',
  /** The agent had the tool when the run began, and has it no more. */
  'TOOL_GONE',
  /** The MCP server offers another definition of the tool than the one that was allowed. */
  'TOOL_CHANGED',
  /** The arguments do not have the form that the tool asks for. */
  'INVALID_ARGUMENTS',
  /** The same call was made as often as it may be in one run. */
  'TOO_MANY_EQUAL_CALLS',
  /** Another call of the same answer has this id. */
  'DUPLICATE_CALL_ID',
  /** More calls in one answer than are made at once. */
  'TOO_MANY_CALLS',
  /** The run may begin no more runs of other agents. */
  'NO_RUNS_LEFT',
  /** The model asked for tools in its last step. */
  'NO_STEPS_LEFT',
] as const;
export type CallFaultCode = (typeof CALL_FAULTS)[number];

export interface CallFault {
  readonly code: CallFaultCode;
  /** For the model. */
  readonly message: string;
}

/** Calls of one answer that are looked at and answered one by one; what a model asks for beyond them is dropped. */
export const MAX_CALLS_PER_ANSWER = 128;
/** Longer than the name of any tool, so that a name that was cut is no tool's name. */
const MAX_NAME_CHARS = 65;
const MAX_ID_CHARS = 128;
/** The arguments of a call that was not made are kept up to this length, for the model to correct them. */
const MAX_KEPT_ARGUMENT_CHARS = 2000;

/** Longer than the signatures that providers put on a call. */
const MAX_EXTRA_CHARS = 64 * 1024;

/**
 * The call with nothing in it but what is needed, and without endless names. Its arguments are checked later. Gemini
 * refuses a conversation whose calls come back without the signature in `extra_content`.
 */
export function boundedCall(call: ToolCall): ToolCall {
  const { name, arguments: args } = call.function;
  const { extra_content: extra } = call as { readonly extra_content?: unknown };
  const isKept = extra !== undefined && JSON.stringify(extra).length <= MAX_EXTRA_CHARS;
  return {
    id: call.id.slice(0, MAX_ID_CHARS),
    type: 'function',
    function: { name: name.slice(0, MAX_NAME_CHARS), arguments: args },
    ...(isKept && { extra_content: extra }),
  };
}

/** The call as the conversation keeps it after it was refused. */
export function refusedCall(call: ToolCall): ToolCall {
  const { name, arguments: args } = call.function;
  if (args.length <= MAX_KEPT_ARGUMENT_CHARS) return call;
  return { ...call, function: { name, arguments: '{}' } };
}

/** One note for all calls of an answer with the same tool and fault. */
export function faultNotes(
  faults: readonly { readonly tool?: string; readonly code: CallFaultCode }[],
): StepNote[] {
  const counts = new Map<string, { tool?: string; code: CallFaultCode; count: number }>();
  for (const fault of faults) {
    const key = `${fault.code} ${fault.tool ?? ''}`;
    const known = counts.get(key);
    if (known) known.count++;
    else counts.set(key, { ...fault, count: 1 });
  }
  return [...counts.values()].map(({ tool, code, count }) => ({
    event: 'tool_call',
    ...(tool !== undefined && { tool }),
    duration_ms: 0,
    error: code,
    count,
  }));
}
