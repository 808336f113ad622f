/** A fake Gemini: `generateContent` and `streamGenerateContent`, with one answer in one form or the other. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Frame, play } from './frames.ts';
import { type Exchange, FakeProvider, type Json, send } from './provider.ts';
import { CACHED_TOKENS, PROMPT_TOKENS, REASONING_TOKENS, type Script, scriptOf } from './script.ts';
import type { Fault, FaultName } from './stage.ts';

const PATH = /^\/v1beta\/models\/[^/:]+:(stream)?[gG]enerateContent$/;

/** The code and status of Google's errors, by the types that the stage uses for all providers. */
const STATUSES: Readonly<Record<string, readonly [number, string]>> = {
  rate_limit_error: [429, 'RESOURCE_EXHAUSTED'],
  insufficient_quota: [429, 'RESOURCE_EXHAUSTED'],
  overloaded_error: [503, 'UNAVAILABLE'],
  api_error: [500, 'INTERNAL'],
  not_found_error: [404, 'NOT_FOUND'],
};
const RPC = 'type.googleapis.com/google.rpc';
const DETAILS: Readonly<Record<string, readonly object[]>> = {
  rate_limit_error: [
    { '@type': `${RPC}.QuotaFailure`, violations: [{ quotaId: 'GenerateRequestsPerMinutePerProject' }] },
    { '@type': `${RPC}.RetryInfo`, retryDelay: '37s' },
  ],
  insufficient_quota: [
    { '@type': `${RPC}.QuotaFailure`, violations: [{ quotaId: 'GenerateRequestsPerDayPerProject' }] },
  ],
  authentication_error: [{ '@type': `${RPC}.ErrorInfo`, reason: 'API_KEY_INVALID' }],
};

export class FakeGemini extends FakeProvider {
  protected readonly generationPaths = [PATH];
  protected readonly overloadedStatus = 503;

  /** The real one also takes the key in the query; ours must not put it there. */
  protected keyOf({ headers }: IncomingMessage): string | undefined {
    const key = headers['x-goog-api-key'];
    return typeof key === 'string' ? key : undefined;
  }

  protected errorBody(type: string, message: string): Json {
    const [code, status] = STATUSES[type] ?? [400, 'INVALID_ARGUMENT'];
    return { error: { code, message, status, details: DETAILS[type] ?? [] } };
  }

  protected override refuseKey(response: ServerResponse): void {
    this.refuse(response, 400, 'authentication_error', 'API key not valid. Please pass a valid API key.');
  }

  protected tagOf(): null {
    return null;
  }

  protected idPrefix(): string {
    return 'response_';
  }

  /** Google refuses fields that it does not know, and an answer that would have to be of two kinds. */
  protected override invalid(body: Json): string | undefined {
    const known = ['contents', 'systemInstruction', 'tools', 'toolConfig', 'generationConfig'];
    const unknown = Object.keys(body).find((name) => !known.includes(name));
    if (unknown !== undefined) return `Invalid JSON payload received. Unknown name "${unknown}"`;
    if (!body.contents?.length) return 'GenerateContentRequest.contents: contents is not specified';
    const { thinkingLevel, thinkingBudget } = body.generationConfig?.thinkingConfig ?? {};
    return thinkingLevel !== undefined && thinkingBudget !== undefined
      ? 'You can only set only one of thinking budget and thinking level.'
      : undefined;
  }

  protected async generate(exchange: Exchange, id: string, fault: Fault | undefined): Promise<void> {
    const { body, response, url } = exchange;
    const script = scriptOf(body.contents, body);
    const { stage } = this;
    if (!url.pathname.endsWith(':streamGenerateContent')) {
      await stage.at('before-end');
      if (fault?.name === 'cut_mid') {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"candidates": [{', () => response.destroy());
        return;
      }
      return send(response, 200, fault?.name === 'blocked' ? blockedChunk(id) : wholeAnswer(id, script));
    }
    // Without `alt=sse` the real one streams a JSON list.
    if (url.searchParams.get('alt') !== 'sse') return send(response, 200, [wholeAnswer(id, script)]);
    const error = this.errorBody('overloaded_error', 'The model is overloaded. Please try again later.');
    await play({ response, frames: framesOf(id, script, fault?.name, error), stage, fault });
  }

  protected read(): boolean {
    return false;
  }
}

const thoughtsIn = ({ reasoning }: Script): number => (reasoning === '' ? 0 : REASONING_TOKENS);

/** The counts after so many words of the answer. Counts of zero are left out, as protocol buffers do. */
function usageOf(script: Script, words: number): Json {
  const thoughts = thoughtsIn(script);
  return {
    promptTokenCount: PROMPT_TOKENS,
    cachedContentTokenCount: CACHED_TOKENS,
    ...(words > 0 && { candidatesTokenCount: words }),
    ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
    totalTokenCount: PROMPT_TOKENS + words + thoughts,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: PROMPT_TOKENS }],
  };
}

const thought = ({ reasoning }: Script): Json[] =>
  reasoning === '' ? [] : [{ text: reasoning, thought: true }];

function callPart({ call }: Script): Json[] {
  if (!call) return [];
  const { id, name, arguments: given } = call;
  return [{ functionCall: { id, name, args: JSON.parse(given) } }];
}

const chunk = (responseId: string, parts: Json[], more: Json = {}, finishReason?: string): Json => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...(finishReason && { finishReason }) }],
  modelVersion: 'gemini-fake',
  responseId,
  ...more,
});

/** An answer to a prompt that is not let through: it has no candidates. */
const blockedChunk = (responseId: string): Json => ({
  promptFeedback: { blockReason: 'PROHIBITED_CONTENT' },
  usageMetadata: { promptTokenCount: PROMPT_TOKENS, totalTokenCount: PROMPT_TOKENS },
  modelVersion: 'gemini-fake',
  responseId,
});

function wholeAnswer(id: string, script: Script): Json {
  const { words } = script;
  const texts = words.length === 0 ? [] : [{ text: words.join('') }];
  const parts = [...thought(script), ...texts, ...callPart(script)];
  return chunk(id, parts, { usageMetadata: usageOf(script, words.length) }, 'STOP');
}

/** Every chunk counts, and the last one has the finish reason. `error` is the event of the faults that send one. */
function framesOf(id: string, script: Script, fault: FaultName | undefined, error: Json): Frame[] {
  if (fault === 'error_first') return [frame(error)];
  if (fault === 'blocked') return [frame(blockedChunk(id))];
  const counted = (words: number): Json =>
    fault === 'no_usage' ? {} : { usageMetadata: usageOf(script, words) };
  const output = (part: Json, words: number): Frame => frame(chunk(id, [part], counted(words)), 'output');
  const outputs = [
    ...thought(script).map((part) => output(part, 0)),
    ...script.words.map((text, at) => output({ text }, at + 1)),
    ...callPart(script).map((part) => output(part, 0)),
  ];
  const total = script.words.length;
  const last = (words: number): Frame => frame(chunk(id, [{ text: '' }], counted(words), 'STOP'), 'usage');
  return [
    ...(fault === 'error_later' ? [...outputs.slice(0, 1), frame(error)] : outputs),
    ...(fault === 'usage_twice' ? [last(1)] : []),
    last(total),
  ];
}

const frame = (value: Json, mark?: Frame['mark']): Frame => ({
  text: `data: ${JSON.stringify(value)}\r\n\r\n`,
  mark,
});
