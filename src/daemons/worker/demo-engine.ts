/** An engine without a model: it says so, repeats what it heard, and never tires. */
import { createHash } from 'node:crypto';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { Ask, Work } from './ask.ts';
import type { Engine, EngineInfo, RunContext } from './engine.ts';

export interface DemoOptions {
  readonly env: Env;
  readonly model: string;
  readonly slots: number;
  /** In words. */
  readonly contextLength: number;
  /** Before every word. */
  readonly delayMs: number;
}

const DIMENSIONS = 16;
const ABOUT =
  'This is the demo engine of orchd. It has no model, so it cannot think; it repeats what it hears. You said: ';

export class DemoEngine implements Engine {
  readonly #options: DemoOptions;

  constructor(options: DemoOptions) {
    this.#options = options;
  }

  async load(): Promise<EngineInfo> {
    const { model, slots, contextLength } = this.#options;
    return { model, vramBytes: 0, slots, contextLength, features: ['chat', 'completions', 'embeddings'] };
  }

  async run(ask: Ask, context: RunContext): Promise<ExecutionResult> {
    const { work } = ask;
    if (work.kind === 'embeddings') {
      const usage = { prompt_tokens: count(work.texts), completion_tokens: 0 };
      return { embeddings: work.texts.map(embed), usage };
    }
    if (ask.format !== 'any') throw new OrchdError('UNSUPPORTED', 'the demo engine cannot answer in a form');
    if (ask.toolChoice === 'required' || typeof ask.toolChoice === 'object') {
      throw new OrchdError('UNSUPPORTED', 'the demo engine cannot call tools');
    }
    return this.#answer(ask, work, context);
  }

  async stop(): Promise<void> {}

  async #answer(ask: Ask, work: Work, { signal, emit }: RunContext): Promise<ExecutionResult> {
    const heard = heardIn(work);
    const promptTokens = count([heard]);
    const { env, contextLength, delayMs } = this.#options;
    const room = contextLength - promptTokens;
    if ((ask.maxTokens ?? 1) > room) {
      throw new OrchdError('CONTEXT_TOO_LONG', `the context has ${contextLength} words`);
    }
    const words = wordsOf(cutAt(ABOUT + heard, ask.stop));
    const said = words.slice(0, Math.min(ask.maxTokens ?? room, room));
    for (const text of said) {
      await pause(env.timers, delayMs, signal);
      if (signal.aborted) throw new OrchdError('CANCELLED');
      emit({ text });
    }
    return {
      text: said.join(''),
      finish_reason: said.length < words.length ? 'length' : 'stop',
      usage: { prompt_tokens: promptTokens, completion_tokens: said.length },
    };
  }
}

/** Of a conversation, what was said last. */
function heardIn(work: Work): string {
  if (work.kind === 'completion') return work.prompt;
  return work.kind === 'chat' ? (work.messages.at(-1)?.text ?? '') : '';
}

/** With the space that follows. */
const wordsOf = (text: string): string[] => text.match(/\S+\s*/g) ?? [];

const count = (texts: readonly string[]): number =>
  texts.reduce((sum, text) => sum + wordsOf(text).length, 0);

function cutAt(text: string, stops: readonly string[]): string {
  const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  return text.slice(0, Math.min(text.length, ...found));
}

/** Texts with words in common come out close to each other. */
function embed(text: string): number[] {
  const sum = new Array<number>(DIMENSIONS).fill(0);
  for (const word of wordsOf(text.toLowerCase())) {
    const bytes = createHash('sha256').update(word.trim()).digest();
    for (let at = 0; at < DIMENSIONS; at++) sum[at] = (sum[at] ?? 0) + (bytes[at] ?? 0) - 127.5;
  }
  const length = Math.hypot(...sum) || 1;
  return sum.map((value) => value / length);
}
