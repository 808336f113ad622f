/**
 * Generates one answer of a GGUF model. The prompt is evaluated in pieces before the generation of node-llama-cpp
 * begins, which then finds it evaluated: node-llama-cpp itself cannot be interrupted while it evaluates a prompt.
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
import type { RunContext } from '../execution/engine.ts';
import type { InferenceRequest, Tool } from '../execution/inference-request.ts';
import { callGrammar, callInstruction, checkSchema, grammarOf } from './llama-grammar.ts';
import { functionsOf, historyOf } from './llama-history.ts';
import type { LoadedModel } from './llama-loaded.ts';

/** The default of llama.cpp. */
const DEFAULT_TEMPERATURE = 0.8;
/** How long the evaluation of one piece of the prompt should take: a cancel has to wait for it. */
const PIECE_TARGET_MS = 500;
/** The tokens of the first piece; later ones adapt to PIECE_TARGET_MS. */
const FIRST_PIECE_TOKENS = 64;

/** The model, the sequence and the request of one generation. */
interface Generation extends LoadedModel {
  readonly sequence: LlamaContextSequence;
  readonly request: InferenceRequest;
  readonly run: RunContext;
}

interface GeneratedAnswer {
  readonly text: string;
  readonly stopReason: string;
  readonly calls: readonly ToolCall[];
}

export async function generate(
  loaded: LoadedModel,
  sequence: LlamaContextSequence,
  request: InferenceRequest,
  run: RunContext,
): Promise<ExecutionResult> {
  const generation = { ...loaded, sequence, request, run };
  const { work } = request;
  const before = sequence.tokenMeter.getState();
  const prompt = work.kind === 'completion' ? completionTokens(generation, work.prompt) : undefined;
  const { tokens, answer } = prompt
    ? { tokens: prompt, answer: await complete(generation, prompt) }
    : await respondToChat(generation);
  const { usedInputTokens, usedOutputTokens } = sequence.tokenMeter.diff(before);
  // The rest of the prompt is what the sequence held already from an earlier request, but for the last token: the
  // generation begins with it, and the meter does not always count it as one of the prompt.
  const held = Math.min(Math.max(0, tokens.length - usedInputTokens), tokens.length - 1);
  return {
    text: answer.text,
    finish_reason: finishOf(answer),
    ...(answer.calls.length > 0 && { tool_calls: [...answer.calls] }),
    usage: {
      prompt_tokens: tokens.length,
      completion_tokens: usedOutputTokens,
      ...(held > 0 && { cache_read_tokens: held }),
    },
  };
}

function finishOf({ stopReason, calls }: GeneratedAnswer): NonNullable<ExecutionResult['finish_reason']> {
  if (calls.length > 0) return 'tool_calls';
  return stopReason === 'maxTokens' ? 'length' : 'stop';
}

/** The tokens of a prompt exactly as node-llama-cpp will make them, so that it finds them evaluated. */
function completionTokens({ model }: Generation, prompt: string): Token[] {
  const { bos, shouldPrependBosToken } = model.tokens;
  if (bos === null || !shouldPrependBosToken) return model.tokenize(prompt);
  return [bos, ...model.tokenize(prompt, false, 'trimLeadingSpace')];
}

async function complete(generation: Generation, tokens: Token[]): Promise<GeneratedAnswer> {
  const { sequence, request, run, llama, package: found } = generation;
  const maxTokens = maxAnswerTokens(generation, tokens.length);
  const grammar = await grammarOf(llama, request.format);
  await evaluatePrompt(generation, tokens);
  const completion = new found.LlamaCompletion({ contextSequence: sequence });
  try {
    const { response, metadata } = await completion.generateCompletionWithMeta(
      request.work.kind === 'completion' ? request.work.prompt : '',
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

async function respondToChat(generation: Generation): Promise<{ tokens: Token[]; answer: GeneratedAnswer }> {
  const { request, llama } = generation;
  const { toolChoice, tools } = request;
  const messages = request.work.kind === 'chat' ? request.work.messages : [];
  if (toolChoice === 'required' || typeof toolChoice === 'object') {
    const wanted =
      typeof toolChoice === 'object' ? tools.filter(({ name }) => name === toolChoice.name) : tools;
    const grammar = await callGrammar(llama, wanted);
    return forcedCall(generation, historyOf(messages, callInstruction(wanted)), grammar);
  }
  const history = historyOf(messages);
  const grammar = await grammarOf(llama, request.format);
  const functions =
    toolChoice === 'auto' && !grammar ? supportedFunctions(generation, history, tools) : undefined;
  return respond(generation, history, { grammar, functions, stream: true });
}

/** The tools in the engine's form; undefined where the model's chat template does not support tools. */
function supportedFunctions(
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
): Promise<{ tokens: Token[]; answer: GeneratedAnswer }> {
  const { tokens, answer } = await respond(generation, history, {
    grammar,
    functions: undefined,
    stream: false,
  });
  const call = callIn(answer.text);
  if (!call) {
    throw new OrchdError('EXECUTION_FAILED', 'the call did not come to its end within max_tokens');
  }
  const calls = [callOf(generation, call.name, call.arguments)];
  emitCalls(generation, calls, 0);
  return { tokens, answer: { ...answer, text: '', calls } };
}

interface ResponseOptions {
  readonly grammar: LlamaGrammar | undefined;
  readonly functions: ChatModelFunctions | undefined;
  /** Whether text is streamed to the caller while it is generated. */
  readonly stream: boolean;
}

async function respond(
  generation: Generation,
  history: ChatHistoryItem[],
  { grammar, functions, stream }: ResponseOptions,
): Promise<{ tokens: Token[]; answer: GeneratedAnswer }> {
  const { sequence, wrapper, model, run, package: found } = generation;
  const state = wrapper.generateContextState({
    chatHistory: history,
    ...(functions && { availableFunctions: functions }),
  });
  const tokens = state.contextText.tokenize(model.tokenizer);
  const maxTokens = maxAnswerTokens(generation, tokens.length);
  await evaluatePrompt(generation, tokens);
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
    return { tokens, answer: { text: response, stopReason: metadata.stopReason, calls } };
  } finally {
    chat.dispose({ disposeSequence: false });
  }
}

/** Maximum number of tokens of the answer: one less than fits, or the engine would shift the prompt out of the context. */
function maxAnswerTokens({ contextLength, request }: Generation, promptTokens: number): number {
  const room = contextLength - promptTokens - 1;
  if (room < 1 || promptTokens + (request.maxTokens ?? 1) > contextLength) {
    const wanted = request.maxTokens === undefined ? '' : ` and ${request.maxTokens} are wanted`;
    const message = `the prompt has ${promptTokens} tokens${wanted}; the context has ${contextLength}`;
    throw new OrchdError('CONTEXT_TOO_LONG', message);
  }
  return Math.min(request.maxTokens ?? room, room);
}

function samplingOf({ request, env, run }: Generation) {
  return {
    signal: run.signal,
    temperature: request.temperature ?? DEFAULT_TEMPERATURE,
    topP: request.topP ?? 1,
    seed: (request.seed ?? Math.floor(env.random.next() * 2 ** 32)) >>> 0,
    repeatPenalty: false as const,
    customStopTriggers: request.stop,
  };
}

/**
 * Evaluates the prompt except its last token, with which the generation begins. Tokens that the sequence holds already
 * from an earlier request are not evaluated again.
 */
async function evaluatePrompt({ sequence, run, env }: Generation, tokens: Token[]): Promise<void> {
  run.signal.throwIfAborted();
  await sequence.adaptStateToTokens(tokens.slice(0, -1), false);
  let size = FIRST_PIECE_TOKENS;
  for (let at = sequence.nextTokenIndex; at < tokens.length - 1; ) {
    run.signal.throwIfAborted();
    const startedAt = env.clock.monotonic();
    const piece = tokens.slice(at, Math.min(at + size, tokens.length - 1));
    await sequence.evaluateWithoutGeneratingNewTokens(piece);
    at += piece.length;
    const took = env.clock.monotonic() - startedAt;
    if (took < PIECE_TARGET_MS / 2) size = Math.min(size * 2, sequence.context.batchSize);
    else if (took > PIECE_TARGET_MS) size = Math.max(1, Math.floor(size / 2));
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
