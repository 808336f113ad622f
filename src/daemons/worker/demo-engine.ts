/** An engine without a model, for tests and first steps: it answers with a fixed sentence and the prompt. */
import { createHash } from 'node:crypto';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult } from '../../model/worker-wire.ts';
import type { Engine, EngineInfo, RunContext } from '../execution/engine.ts';
import type { InferenceRequest, Work } from '../execution/inference-request.ts';

export interface DemoOptions {
  readonly env: Env;
  readonly model: string;
  readonly slots: number;
  /** Counted in words. */
  readonly contextLength: number;
  /** The pause before every word. */
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

  async run(request: InferenceRequest, context: RunContext): Promise<ExecutionResult> {
    const { work } = request;
    if (work.kind === 'embeddings') {
      const usage = { prompt_tokens: count(work.texts), completion_tokens: 0 };
      return { embeddings: work.texts.map(embed), usage };
    }
    if (request.format !== 'any')
      throw new OrchdError('UNSUPPORTED', 'the demo engine cannot answer in a form');
    if (request.toolChoice === 'required' || typeof request.toolChoice === 'object') {
      throw new OrchdError('UNSUPPORTED', 'the demo engine cannot call tools');
    }
    return this.#answer(request, work, context);
  }

  async stop(): Promise<void> {}

  async #answer(
    request: InferenceRequest,
    work: Work,
    { signal, emit }: RunContext,
  ): Promise<ExecutionResult> {
    const prompt = promptOf(work);
    const promptTokens = count([prompt]);
    const { env, contextLength, delayMs } = this.#options;
    const room = contextLength - promptTokens;
    if ((request.maxTokens ?? 1) > room) {
      throw new OrchdError('CONTEXT_TOO_LONG', `the context has ${contextLength} words`);
    }
    const words = wordsOf(cutAt(ABOUT + prompt, request.stop));
    const answer = words.slice(0, Math.min(request.maxTokens ?? room, room));
    for (const text of answer) {
      await pause(env.timers, delayMs, signal);
      if (signal.aborted) throw new OrchdError('CANCELLED');
      emit({ text });
    }
    return {
      text: answer.join(''),
      finish_reason: answer.length < words.length ? 'length' : 'stop',
      usage: { prompt_tokens: promptTokens, completion_tokens: answer.length },
    };
  }
}

/** The prompt, or the text of the last message. */
function promptOf(work: Work): string {
  if (work.kind === 'completion') return work.prompt;
  return work.kind === 'chat' ? (work.messages.at(-1)?.text ?? '') : '';
}

/** Each word with the space after it. */
const wordsOf = (text: string): string[] => text.match(/\S+\s*/g) ?? [];

const count = (texts: readonly string[]): number =>
  texts.reduce((sum, text) => sum + wordsOf(text).length, 0);

function cutAt(text: string, stops: readonly string[]): string {
  const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  return text.slice(0, Math.min(text.length, ...found));
}

/** The normalized sum of a hash vector for each word, so that texts with common words are close to each other. */
function embed(text: string): number[] {
  const sum = new Array<number>(DIMENSIONS).fill(0);
  for (const word of wordsOf(text.toLowerCase())) {
    const bytes = createHash('sha256').update(word.trim()).digest();
    for (let at = 0; at < DIMENSIONS; at++) sum[at] = (sum[at] ?? 0) + (bytes[at] ?? 0) - 127.5;
  }
  const length = Math.hypot(...sum) || 1;
  return sum.map((value) => value / length);
}
