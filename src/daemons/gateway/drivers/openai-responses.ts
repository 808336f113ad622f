/**
 * Calls OpenAI's `/v1/responses`. With `keep` the provider runs the call in the background: it goes on without us, and is
 * found again by its id. Without `keep` nothing may be stored, which the background needs, so that the call runs in the
 * foreground and ends with its connection.
 */
import { OrchdError } from '../../../model/errors.ts';
import type { ExecutionResult } from '../../../model/worker-wire.ts';
import { type JsonObject, objectOf } from '../../../wire/dialects/json.ts';
import { hasEnded, responsesBody } from '../../../wire/dialects/openai-responses.ts';
import { ResponsesAnswer } from '../../../wire/dialects/openai-responses-stream.ts';
import { openAiUsage, tellsUsage } from '../../../wire/dialects/usage.ts';
import { pulledEvents } from '../../../wire/pulled-events.ts';
import type { Driver, DriverAbilities, DriverCall, EarlierCall } from '../driver.ts';
import { MAX_EVENT_CHARS } from './anthropic-messages.ts';
import { TAG_KEY } from './openai-chat.ts';
import { isAborted, type ProviderApi, unconfirmed } from './provider-api.ts';

const PATH = '/v1/responses';
const KEEPS_MS = 30 * 86_400_000;

type Listened = Pick<EarlierCall, 'signal' | 'emit' | 'noteUsage'>;

export class OpenAiResponsesDriver implements Driver {
  readonly abilities: DriverAbilities;
  readonly #api: ProviderApi;
  readonly #keep: boolean;

  constructor(api: ProviderApi, keep: boolean) {
    this.#api = api;
    this.#keep = keep;
    this.abilities = {
      finds: keep ? 'id' : 'nothing',
      keepsMs: keep ? KEEPS_MS : 0,
      cancels: keep ? 'order' : 'disconnect',
      billsWhenCut: true,
    };
  }

  run(call: DriverCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, () => (this.#keep ? this.#background(call) : this.#foreground(call)));
  }

  resume(call: EarlierCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, async () => {
      if (call.id === undefined)
        throw new OrchdError(
          'UNKNOWN_OUTCOME',
          'the provider may have begun the call, and its id is not known',
        );
      return this.#collect(call.id, call, new ResponsesAnswer(call));
    });
  }

  close(): void {
    this.#api.close();
  }

  async #foreground(call: DriverCall): Promise<ExecutionResult> {
    const body = responsesBody(call.request, call.model, { stream: true, store: false });
    const answer = new ResponsesAnswer(call);
    const reply = await this.#api.openStream({ path: PATH, body }, call.signal);
    for await (const { data } of pulledEvents(reply, MAX_EVENT_CHARS)) {
      answer.add(data);
      if (answer.ended) break;
    }
    return answer.result();
  }

  async #background(call: DriverCall): Promise<ExecutionResult> {
    const metadata = { [TAG_KEY]: call.tag };
    const more = { stream: true, background: true, store: true, metadata };
    const body = responsesBody(call.request, call.model, more);
    const answer = new ResponsesAnswer(call);
    const id = await this.#readStream(call, body, answer);
    if (answer.ended) return answer.result();
    return this.#collect(id, call, answer);
  }

  /**
   * Reads the stream until the response ends, the stream breaks or the call is cancelled, and returns the id. The signal
   * of the call does not close the connection before the id is known: without it the call could not be cancelled.
   */
  async #readStream(call: DriverCall, body: JsonObject, answer: ResponsesAnswer): Promise<string> {
    const { env, times } = this.#api;
    const stop = new AbortController();
    let cancelWait = (): void => undefined;
    let id: string | undefined;
    const onAbort = (): void => {
      if (id !== undefined) stop.abort();
      else cancelWait = env.timers.after(times.cancelMs.id, () => stop.abort());
    };
    if (call.signal.aborted) throw new OrchdError('CANCELLED');
    call.signal.addEventListener('abort', onAbort);
    try {
      const reply = await this.#api.openStream({ path: PATH, body }, stop.signal);
      for await (const { data } of pulledEvents(reply, MAX_EVENT_CHARS)) {
        answer.add(data);
        if (id === undefined && answer.id !== undefined) {
          await call.keepId(answer.id);
          id = answer.id;
        }
        if (answer.ended || (id !== undefined && call.signal.aborted)) break;
      }
    } catch (error) {
      // Whatever is wrong with the stream: what became of the response is known under its id.
      if (id === undefined) throw call.signal.aborted && isAborted(error) ? unconfirmed() : error;
    } finally {
      call.signal.removeEventListener('abort', onAbort);
      cancelWait();
    }
    if (id === undefined)
      throw new OrchdError('UNKNOWN_OUTCOME', 'the provider ended its stream before it named the call');
    return id;
  }

  /** Waits for the end of a response that the provider runs by itself. */
  async #collect(id: string, call: Listened, answer: ResponsesAnswer): Promise<ExecutionResult> {
    const { signal } = call;
    try {
      const response = await this.#api.poll(signal, this.#api.times.waitMs, async () => {
        const found = await this.#look(id, signal);
        return hasEnded(found) ? found : undefined;
      });
      return answer.finish(response);
    } catch (error) {
      if (signal.aborted && !(await this.#cancel(id, call))) throw unconfirmed();
      throw error;
    }
  }

  /** Orders the end of a response, and waits a little for the tokens that it has used; returns whether it has ended. */
  async #cancel(id: string, call: Listened): Promise<boolean> {
    const ordered = await this.#api.order(`${pathOf(id)}/cancel`);
    if (ordered && noteEnd(ordered, call)) return true;
    const seen = await this.#api.lookBriefly(async (signal) => noteEnd(await this.#look(id, signal), call));
    return seen === true;
  }

  async #look(id: string, signal: AbortSignal): Promise<JsonObject> {
    return objectOf(await this.#api.read(pathOf(id), signal));
  }
}

const pathOf = (id: string): string => `${PATH}/${encodeURIComponent(id)}`;

/** Notes what a response that has ended has used; undefined if it has not ended. */
function noteEnd(response: JsonObject, { noteUsage }: Listened): true | undefined {
  if (!hasEnded(response)) return undefined;
  if (tellsUsage(response['usage'])) noteUsage(openAiUsage(response['usage']));
  return true;
}
