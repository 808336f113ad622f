/**
 * One answer of a GGUF model. The prompt is read piece by piece before the engine's own generation begins, which
 * then finds it done: that one could not be interrupted while it reads.
 */

import type {
  ChatHistoryItem,
  ChatModelFunctions,
  LLamaChatGenerateResponseOptions,
  LlamaContextSequence,
  LlamaGrammar,
  Token,
} from 'node-llama-cpp';
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult, ToolCall } from '../../model/worker-wire.ts';
import type { Ask, Tool } from './ask.ts';
import type { RunContext } from './engine.ts';
import { callGrammar, callInstruction, checkSchema, grammarOf } from './llama-grammar.ts';
import { functionsOf, historyOf } from './llama-history.ts';
import type { LoadedModel } from './llama-loaded.ts';

/** Where the caller says nothing of it; as llama.cpp has it. */
const TEMPERATURE = 0.8;
/** A piece of the prompt should take about this long: a cancel waits for the one that is being read. */
const PIECE_MS = 500;
const FIRST_PIECE = 64;

/** Everything that one generation needs. */
interface Generation extends LoadedModel {
  readonly sequence: LlamaContextSequence;
  readonly ask: Ask;
  readonly run: RunContext;
}

interface Said {
  readonly text: string;
  readonly stopReason: string;
  readonly calls: readonly ToolCall[];
}

export async function generate(
  loaded: LoadedModel,
  sequence: LlamaContextSequence,
  ask: Ask,
  run: RunContext,
): Promise<ExecutionResult> {
  const generation = { ...loaded, sequence, ask, run };
  const { work } = ask;
  const before = sequence.tokenMeter.getState();
  const prompt = work.kind === 'completion' ? completionTokens(generation, work.prompt) : undefined;
  const { tokens, said } = prompt
    ? { tokens: prompt, said: await complete(generation, prompt) }
    : await answer(generation);
  const { usedOutputTokens } = sequence.tokenMeter.diff(before);
  return {
    text: said.text,
    finish_reason: finishOf(said),
    ...(said.calls.length > 0 && { tool_calls: [...said.calls] }),
    usage: { prompt_tokens: tokens.length, completion_tokens: usedOutputTokens },
  };
}

function finishOf({ stopReason, calls }: Said): NonNullable<ExecutionResult['finish_reason']> {
  if (calls.length > 0) return 'tool_calls';
  return stopReason === 'maxTokens' ? 'length' : 'stop';
}

/** As the engine itself will make them of the same text. */
function completionTokens({ model }: Generation, prompt: string): Token[] {
  const { bos, shouldPrependBosToken } = model.tokens;
  if (bos === null || !shouldPrependBosToken) return model.tokenize(prompt);
  return [bos, ...model.tokenize(prompt, false, 'trimLeadingSpace')];
}

async function complete(generation: Generation, tokens: Token[]): Promise<Said> {
  const { sequence, ask, run, llama, package: found } = generation;
  const maxTokens = roomFor(generation, tokens.length);
  const grammar = await grammarOf(llama, ask.format);
  await readPrompt(generation, tokens);
  const completion = new found.LlamaCompletion({ contextSequence: sequence });
  try {
    const { response, metadata } = await completion.generateCompletionWithMeta(
      ask.work.kind === 'completion' ? ask.work.prompt : '',
      {
        ...samplingOf(generation),
        maxTokens,
        contextShiftSize: 1,
        disableContextShift: true,
        onTextChunk: (text) => text !== '' && run.emit({ text }),
        ...(grammar && { grammar }),
      },
    );
    return { text: response, stopReason: metadata.stopReason, calls: [] };
  } finally {
    completion.dispose({ disposeSequence: false });
  }
}

async function answer(generation: Generation): Promise<{ tokens: Token[]; said: Said }> {
  const { ask, llama } = generation;
  const { toolChoice, tools } = ask;
  const messages = ask.work.kind === 'chat' ? ask.work.messages : [];
  if (toolChoice === 'required' || typeof toolChoice === 'object') {
    const wanted =
      typeof toolChoice === 'object' ? tools.filter(({ name }) => name === toolChoice.name) : tools;
    const grammar = await callGrammar(llama, wanted);
    return forcedCall(generation, historyOf(messages, callInstruction(wanted)), grammar);
  }
  const history = historyOf(messages);
  const grammar = await grammarOf(llama, ask.format);
  const functions = toolChoice === 'auto' && !grammar ? usable(generation, history, tools) : undefined;
  return respond(generation, history, { grammar, functions, stream: true });
}

/** The tools, where the template of the model has a way to tell it of them. */
function usable(
  { wrapper }: Generation,
  chatHistory: ChatHistoryItem[],
  tools: readonly Tool[],
): ChatModelFunctions | undefined {
  for (const { parameters } of tools) if (parameters) checkSchema(parameters, 'tools');
  const availableFunctions = functionsOf(tools);
  try {
    wrapper.generateContextState({ chatHistory, availableFunctions });
    return availableFunctions;
  } catch {
    return undefined;
  }
}

async function forcedCall(
  generation: Generation,
  history: ChatHistoryItem[],
  grammar: LlamaGrammar,
): Promise<{ tokens: Token[]; said: Said }> {
  const { tokens, said } = await respond(generation, history, {
    grammar,
    functions: undefined,
    stream: false,
  });
  const call = callIn(said.text);
  if (!call) {
    throw new OrchdError('EXECUTION_FAILED', 'the call did not come to its end within max_tokens');
  }
  const calls = [callOf(generation, call.name, call.arguments)];
  emitCalls(generation, calls, 0);
  return { tokens, said: { ...said, text: '', calls } };
}

interface How {
  readonly grammar: LlamaGrammar | undefined;
  readonly functions: ChatModelFunctions | undefined;
  /** Whether the text is for the caller as it comes. */
  readonly stream: boolean;
}

async function respond(
  generation: Generation,
  history: ChatHistoryItem[],
  { grammar, functions, stream }: How,
): Promise<{ tokens: Token[]; said: Said }> {
  const { sequence, wrapper, model, run, package: found } = generation;
  const state = wrapper.generateContextState({
    chatHistory: history,
    ...(functions && { availableFunctions: functions }),
  });
  const tokens = state.contextText.tokenize(model.tokenizer);
  const maxTokens = roomFor(generation, tokens.length);
  await readPrompt(generation, tokens);
  const chat = new found.LlamaChat({ contextSequence: sequence, chatWrapper: wrapper });
  const calls: ToolCall[] = [];
  const options = {
    ...samplingOf(generation),
    maxTokens,
    onTextChunk: (text: string) => stream && text !== '' && run.emit({ text }),
    ...(grammar && { grammar }),
    ...(functions && {
      functions,
      onFunctionCall: ({ functionName, params }: { functionName: string; params: unknown }) => {
        const call = callOf(generation, functionName, params);
        calls.push(call);
        emitCalls(generation, [call], calls.length - 1);
      },
    }),
  } as LLamaChatGenerateResponseOptions<ChatModelFunctions>;
  try {
    const { response, metadata } = await chat.generateResponse(history, options);
    return { tokens, said: { text: response, stopReason: metadata.stopReason, calls } };
  } finally {
    chat.dispose({ disposeSequence: false });
  }
}

/** How much may be said; less than the context by one, or the engine would begin to forget the prompt. */
function roomFor({ contextLength, ask }: Generation, promptTokens: number): number {
  const room = contextLength - promptTokens - 1;
  if (room < 1 || promptTokens + (ask.maxTokens ?? 1) > contextLength) {
    const wanted = ask.maxTokens === undefined ? '' : ` and ${ask.maxTokens} are wanted`;
    const message = `the prompt has ${promptTokens} tokens${wanted}; the context has ${contextLength}`;
    throw new OrchdError('CONTEXT_TOO_LONG', message);
  }
  return Math.min(ask.maxTokens ?? room, room);
}

function samplingOf({ ask, env, run }: Generation) {
  return {
    signal: run.signal,
    temperature: ask.temperature ?? TEMPERATURE,
    topP: ask.topP ?? 1,
    seed: (ask.seed ?? Math.floor(env.random.next() * 2 ** 32)) >>> 0,
    repeatPenalty: false as const,
    customStopTriggers: ask.stop,
  };
}

/** All but the last token, of which the generation starts; what the sequence has of it already is left. */
async function readPrompt({ sequence, run, env }: Generation, tokens: Token[]): Promise<void> {
  run.signal.throwIfAborted();
  await sequence.adaptStateToTokens(tokens.slice(0, -1), false);
  let size = FIRST_PIECE;
  for (let at = sequence.nextTokenIndex; at < tokens.length - 1; ) {
    run.signal.throwIfAborted();
    const begun = env.clock.monotonic();
    const piece = tokens.slice(at, Math.min(at + size, tokens.length - 1));
    await sequence.evaluateWithoutGeneratingNewTokens(piece);
    at += piece.length;
    const took = env.clock.monotonic() - begun;
    if (took < PIECE_MS / 2) size = Math.min(size * 2, sequence.context.batchSize);
    else if (took > PIECE_MS) size = Math.max(1, Math.floor(size / 2));
  }
  run.signal.throwIfAborted();
}

function callIn(text: string): { readonly name: string; readonly arguments: unknown } | undefined {
  try {
    return JSON.parse(text) as { name: string; arguments: unknown };
  } catch {
    return undefined;
  }
}

const callOf = ({ env }: Generation, name: string, given: unknown): ToolCall => ({
  id: `call_${env.random.hex(12)}`,
  type: 'function',
  function: { name, arguments: JSON.stringify(given ?? {}) },
});

function emitCalls({ run }: Generation, calls: readonly ToolCall[], first: number): void {
  run.emit({ toolCalls: calls.map((call, at) => ({ index: first + at, ...call })) });
}
