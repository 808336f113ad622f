/** OpenAI's responses. One in the background goes on when its connection has ended, and is read and cancelled by its id. */
import { type Frame, play } from './frames.ts';
import { type Exchange, type Json, send } from './provider.ts';
import {
  CACHED_TOKENS,
  completionTokens,
  PROMPT_TOKENS,
  REASONING_TOKENS,
  type Script,
  scriptOf,
} from './script.ts';
import type { Fault, FaultName, Stage } from './stage.ts';

const PATH = '/v1/responses/';

interface Running {
  response: Json;
  readonly cancelled: PromiseWithResolvers<void>;
}

export class OpenAiResponses {
  readonly #stage: Stage;
  readonly #running = new Map<string, Running>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  async generate({ body, response }: Exchange, id: string, fault: Fault | undefined): Promise<void> {
    const isStored = body.store !== false;
    const script = scriptOf(messagesOf(body.input), body);
    const begun = skeleton(id, body, 'in_progress');
    const ended = endedResponse(begun, script, fault?.name);
    const running: Running = { response: begun, cancelled: Promise.withResolvers() };
    if (isStored) this.#running.set(id, running);
    const { promise: cancelled } = running.cancelled;
    const end = (): void => {
      running.response = ended;
    };
    if (body.stream === true) {
      const frames = framesOf(begun, ended, script, fault?.name);
      const goesOn = body.background === true;
      const isWhole = await play({ response, frames, stage: this.#stage, fault, goesOn, cancelled });
      if (isWhole && running.response === begun) end();
      return;
    }
    if (body.background === true) {
      send(response, 200, { ...begun, status: 'queued' });
      await this.#stage.at('before-end', cancelled);
      if (running.response === begun) end();
      return;
    }
    await this.#stage.at('before-end', cancelled);
    end();
    send(response, 200, ended);
  }

  read({ method, url, response }: Exchange): boolean {
    const [id = '', order] = url.pathname.slice(PATH.length).split('/');
    const running = this.#running.get(id);
    if (!running || this.#stage.expired.has(id)) return false;
    if (method === 'POST' && order === 'cancel') this.#cancel(running);
    else if (method !== 'GET' || order !== undefined) return false;
    send(response, 200, running.response);
    return true;
  }

  #cancel(running: Running): void {
    if (running.response.status !== 'in_progress') return;
    const usage = usageOf(PROMPT_TOKENS, 1, 0);
    running.response = { ...running.response, status: 'cancelled', usage };
    running.cancelled.resolve();
  }
}

function messagesOf(input: Json): Json {
  return typeof input === 'string' ? [{ content: input }] : input.filter(({ content }: Json) => content);
}

const usageOf = (input: number, output: number, reasoning: number): Json => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: CACHED_TOKENS, cache_write_tokens: 0 },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output,
});

const skeleton = (id: string, body: Json, status: string): Json => ({
  id,
  object: 'response',
  created_at: 1_700_000_000,
  status,
  background: body.background ?? false,
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: body.metadata ?? {},
  model: body.model,
  output: [],
  parallel_tool_calls: true,
  store: body.store ?? true,
  temperature: 1,
  tool_choice: body.tool_choice ?? 'auto',
  tools: body.tools ?? [],
  top_p: 1,
  usage: null,
});

function endedResponse(begun: Json, script: Script, fault: FaultName | undefined): Json {
  if (fault === 'fails')
    return { ...begun, status: 'failed', error: { code: 'server_error', message: 'The model failed.' } };
  const reasoning = script.reasoning === '' ? 0 : REASONING_TOKENS;
  const usage = fault === 'no_usage' ? null : usageOf(PROMPT_TOKENS, completionTokens(script), reasoning);
  return { ...begun, status: 'completed', output: outputOf(script, 'completed'), usage };
}

function outputOf({ reasoning, words, call }: Script, status: string): Json[] {
  const text = { type: 'output_text', text: words.join(''), annotations: [], logprobs: [] };
  return [
    ...(reasoning === ''
      ? []
      : [{ id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text: reasoning }] }]),
    ...(words.length === 0
      ? []
      : [{ id: 'msg_1', type: 'message', role: 'assistant', status, content: [text] }]),
    ...(call
      ? [
          {
            id: 'fc_1',
            type: 'function_call',
            status,
            call_id: call.id,
            name: call.name,
            arguments: call.arguments,
          },
        ]
      : []),
  ];
}

function framesOf(begun: Json, ended: Json, script: Script, fault: FaultName | undefined): Frame[] {
  let number = 0;
  const frame = (type: string, fields: object, mark?: Frame['mark']): Frame => ({
    text: `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...fields })}\n\n`,
    mark,
  });
  const error = (): Frame =>
    frame('error', { code: 'server_overloaded', message: 'Overloaded', param: null });
  if (fault === 'error_first') return [error()];
  const first = frame('response.created', { response: begun });
  const second = frame('response.in_progress', { response: begun });
  const outputs = outputOf(script, 'in_progress').flatMap((item, at) => itemFrames(item, at, frame));
  const middle = fault === 'error_later' ? [...outputs.slice(0, 3), error()] : outputs;
  const last = ended.status === 'failed' ? 'response.failed' : 'response.completed';
  const counted = { ...ended, usage: ended.usage && { ...ended.usage, output_tokens: 1 } };
  const twice =
    fault === 'usage_twice'
      ? [frame('response.in_progress', { response: { ...counted, status: 'in_progress' } })]
      : [];
  return [first, second, ...middle, ...twice, frame(last, { response: ended }, 'usage')];
}

function itemFrames(
  item: Json,
  output_index: number,
  frame: (type: string, fields: object, mark?: Frame['mark']) => Frame,
): Frame[] {
  const place = { item_id: item.id, output_index };
  const added = frame('response.output_item.added', {
    output_index,
    item: { ...item, content: [], summary: [], arguments: '' },
  });
  const parts: Frame[] = [];
  if (item.type === 'reasoning') {
    const [part] = item.summary;
    const at = { ...place, summary_index: 0 };
    parts.push(frame('response.reasoning_summary_part.added', { ...at, part: { ...part, text: '' } }));
    parts.push(frame('response.reasoning_summary_text.delta', { ...at, delta: part.text }, 'output'));
    parts.push(frame('response.reasoning_summary_text.done', { ...at, text: part.text }));
    parts.push(frame('response.reasoning_summary_part.done', { ...at, part }));
  }
  if (item.type === 'message') {
    const [part] = item.content;
    const at = { ...place, content_index: 0 };
    parts.push(frame('response.content_part.added', { ...at, part: { ...part, text: '' } }));
    for (const delta of part.text.match(/\S+\s*/g) ?? [])
      parts.push(frame('response.output_text.delta', { ...at, delta, logprobs: [] }, 'output'));
    parts.push(frame('response.output_text.done', { ...at, text: part.text, logprobs: [] }));
    parts.push(frame('response.content_part.done', { ...at, part }));
  }
  if (item.type === 'function_call') {
    const half = Math.floor(item.arguments.length / 2);
    for (const delta of [item.arguments.slice(0, half), item.arguments.slice(half)])
      parts.push(frame('response.function_call_arguments.delta', { ...place, delta }, 'output'));
    parts.push(
      frame('response.function_call_arguments.done', {
        ...place,
        name: item.name,
        arguments: item.arguments,
      }),
    );
  }
  return [added, ...parts, frame('response.output_item.done', { output_index, item })];
}
