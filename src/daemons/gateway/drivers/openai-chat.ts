/**
 * Calls `/v1/chat/completions`. A provider that may keep answers (`keep`) stores them under the tag of the call, by which
 * they are found after the connection or the gateway was lost; without it they are lost too.
 */
import { OrchdError } from '../../../model/errors.ts';
import type { ExecutionResult } from '../../../model/worker-wire.ts';
import { asChat, chatMessages } from '../../../wire/dialects/as-chat.ts';
import { providerStreamError } from '../../../wire/dialects/errors.ts';
import { fieldsOf, type JsonObject, listOf, objectOf } from '../../../wire/dialects/json.ts';
import { chatBody, completionResult, emitWhole } from '../../../wire/dialects/openai-chat.ts';
import { type ErrorReading, STREAM_FIELDS, streamChat } from '../../worker/openai-calls.ts';
import type { Driver, DriverAbilities, DriverCall, EarlierCall } from '../driver.ts';
import { isLost, type ProviderApi } from './provider-api.ts';

/** The key of the metadata that holds the tag. */
export const TAG_KEY = 'orchd_token';
const PATH = '/v1/chat/completions';
/** OpenAI keeps stored completions for thirty days. */
const KEEPS_MS = 30 * 86_400_000;

export class OpenAiChatDriver implements Driver {
  readonly abilities: DriverAbilities;
  readonly #api: ProviderApi;
  readonly #keep: boolean;
  readonly #errors: ErrorReading;

  constructor(api: ProviderApi, keep: boolean) {
    this.#api = api;
    this.#keep = keep;
    this.#errors = { ofReply: api.refusal, inStream: providerStreamError };
    this.abilities = {
      finds: keep ? 'token' : 'nothing',
      keepsMs: keep ? KEEPS_MS : 0,
      cancels: 'disconnect',
      billsWhenCut: true,
    };
  }

  run(call: DriverCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, async () => {
      try {
        return await this.#stream(call);
      } catch (error) {
        if (!this.#keep || call.signal.aborted || !isLost(error)) throw error;
        return this.#find(call);
      }
    });
  }

  resume(call: EarlierCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, async () => {
      if (!this.#keep) throw new OrchdError('UNKNOWN_OUTCOME', 'the provider keeps no answers');
      return this.#find(call);
    });
  }

  close(): void {
    this.#api.close();
  }

  #stream(call: DriverCall): Promise<ExecutionResult> {
    const { times } = this.#api;
    const body = bodyOf(call, this.#keep);
    const timeouts = { timeoutMs: times.responseMs, idleMs: times.idleMs };
    return streamChat(this.#api, { path: PATH, body, ...timeouts }, call, this.#errors);
  }

  /** Looks for the stored answer, which appears when the provider has made it. */
  async #find(call: Pick<EarlierCall, 'tag' | 'signal' | 'emit' | 'noteUsage'>): Promise<ExecutionResult> {
    const { tag, signal } = call;
    const query = new URLSearchParams({ [`metadata[${TAG_KEY}]`]: tag, limit: '20' });
    const found = await this.#api.poll(signal, this.#api.times.findMs, async () => {
      const list = listOf(objectOf(await this.#api.read(`${PATH}?${query}`, signal))['data']);
      // A server that does not know the filter lists the answers to others.
      return list.map(fieldsOf).find(({ metadata }) => fieldsOf(metadata)[TAG_KEY] === tag);
    });
    const result = completionResult(found);
    if (result.usage) call.noteUsage(result.usage);
    emitWhole(result, call.emit);
    return result;
  }
}

/** OpenAI's models that reason take only `max_completion_tokens`; the older name is deprecated. */
function bodyOf({ request, model, tag }: DriverCall, keep: boolean): JsonObject {
  chatMessages(request);
  const { max_tokens: maxTokens, ...body } = chatBody(asChat(request), model, {
    ...STREAM_FIELDS,
    ...(keep && { store: true, metadata: { [TAG_KEY]: tag } }),
  });
  return { ...body, ...(maxTokens !== undefined && { max_completion_tokens: maxTokens }) };
}
