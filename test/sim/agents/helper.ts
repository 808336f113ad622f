/**
 * The agents of the simulation, their model and their tools. The model asks for `look` and `send` at once, some models
 * for `look` once more, and then says what it has heard. `send` must not be called twice. The ledger of the tools is
 * outside the brain.
 */
import type { Tool, ToolContext } from '../../../src/agents/tools/tool.ts';
import type { Offer } from '../../../src/core/ports/backend.ts';
import type { Timers } from '../../../src/kit/env/env.ts';
import type { World } from '../../fakes/world.ts';

export const MODEL = 'scripted';
export const MODEL_TIMEOUT_MS = 3000;
const APPROVAL_WAIT_MS = 4000;
const TWO_ROUNDS_EVERY = 3;

const HELPER = { model: MODEL, tools: ['look', 'send'], timeout_ms: MODEL_TIMEOUT_MS };
/** `careful` has `send` allowed by a person. */
export const AGENTS = [
  { ...HELPER, name: 'helper' },
  { ...HELPER, name: 'careful', approve: ['send'], approval_wait_ms: APPROVAL_WAIT_MS },
];

/** A call that was begun. */
export interface Call {
  readonly job: string;
  readonly tool: string;
  readonly at: number;
  hasEnded: boolean;
}

const PARAMETERS = {
  type: 'object',
  properties: { number: { type: 'integer' }, again: { type: 'boolean' } },
  required: ['number'],
};

/** `begun` is told of each call before it does anything. */
export function toolsOf(world: World, timers: Timers, ledger: Call[], begun: (call: Call) => void): Tool[] {
  const tool = (name: string, effect: Tool['effect'], mostMs: number): Tool => ({
    name,
    description: `The tool ${name}.`,
    parameters: PARAMETERS,
    effect,
    async run({ number }: { number: number }, { jobId: job }: ToolContext) {
      const call = { job, tool: name, at: world.now, hasEnded: false };
      begun(call);
      ledger.push(call);
      world.note(`call ${job}`);
      await new Promise<void>((resolve) => timers.after(world.random.between(1, mostMs), resolve));
      call.hasEnded = true;
      return said(name, number);
    },
  });
  // `send` is so slow that many worlds cut one off, which a person then has to settle.
  return [tool('look', 'pure', 300), tool('send', 'effectful', 1200)];
}

export const said = (tool: string, number: number): string => `${tool} ${number}`;

interface Heard {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

/** The marks around what a tool has returned. */
const DATA = /\s?--- data \w+ ---\n([\s\S]*)\n--- end of data \w+ ---/;

/** The answer of the model, as an executor gives it. */
export function answerOf({ payloadText }: Offer): string {
  const { messages } = JSON.parse(payloadText) as Heard;
  // What was said before in the session comes first.
  const asked = messages.findLastIndex(({ role }) => role === 'user');
  const number = Number(messages[asked]?.content);
  const heard = messages
    .slice(asked)
    .filter(({ role }) => role === 'tool')
    .map(({ content }) => content.replace(DATA, ' $1').trim());
  const call = (id: string, name: string, args: object) => ({
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(args) },
  });
  const again = number % TWO_ROUNDS_EVERY === 0 && heard.length === 2;
  const calls =
    heard.length === 0
      ? [call('a', 'look', { number }), call('b', 'send', { number })]
      : again
        ? [call('c', 'look', { number, again: true })]
        : [];
  const text = calls.length > 0 ? '' : replyOf(number, heard);
  return JSON.stringify({
    text,
    finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
    ...(calls.length > 0 && { tool_calls: calls }),
  });
}

export const replyOf = (number: number, heard: readonly string[]): string => `${number}: ${heard.join('; ')}`;

/** How many calls of tools the model asks for. */
export const callsOf = (number: number): number => (number % TWO_ROUNDS_EVERY === 0 ? 3 : 2);

/** What the model hears where every call is made. */
export const wholeReply = (number: number): string =>
  replyOf(number, [
    said('look', number),
    said('send', number),
    ...(number % TWO_ROUNDS_EVERY === 0 ? [said('look', number)] : []),
  ]);
