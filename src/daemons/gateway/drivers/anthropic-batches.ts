/**
 * Calls Anthropic through message batches with one request each: half the price, an answer within a day, and a call
 * that is found again by the tag in it. The listing of batches does not show the tags; the results of ended ones do.
 */
import { OrchdError } from '../../../model/errors.ts';
import type { ExecutionResult } from '../../../model/worker-wire.ts';
import {
  type BatchState,
  batchBody,
  batchResult,
  batchState,
  resultLine,
} from '../../../wire/dialects/anthropic-batches.ts';
import { messagesBody, VERSION_HEADER, versionFor } from '../../../wire/dialects/anthropic-messages.ts';
import { fieldsOf, type JsonObject, listOf, objectOf } from '../../../wire/dialects/json.ts';
import { emitWhole } from '../../../wire/dialects/openai-chat.ts';
import { protocolError } from '../../../wire/dialects/protocol-error.ts';
import type { Driver, DriverAbilities, DriverCall, EarlierCall } from '../driver.ts';
import { isAborted, isLost, type ProviderApi, unconfirmed } from './provider-api.ts';

const PATH = '/v1/messages/batches';
const PAGE = 100;
const MAX_PAGES = 100;
/** How far the provider's clock may be behind ours. */
const CLOCK_SKEW_MS = 600_000;
/** Anthropic keeps results for 29 days. */
const KEEPS_MS = 29 * 86_400_000;

type Batched = Pick<EarlierCall, 'tag' | 'signal' | 'emit' | 'noteUsage' | 'keepId'>;

export class AnthropicBatchesDriver implements Driver {
  readonly abilities: DriverAbilities = {
    finds: 'token',
    keepsMs: KEEPS_MS,
    cancels: 'order',
    billsWhenCut: false,
  };
  readonly #api: ProviderApi;

  constructor(api: ProviderApi) {
    this.#api = api;
  }

  run(call: DriverCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, async () => {
      const begunAt = this.#api.env.clock.now();
      const id = await this.#create(call, begunAt);
      return this.#collect(id, call);
    });
  }

  resume(call: EarlierCall): Promise<ExecutionResult> {
    return this.#api.guard(call.signal, async () =>
      this.#collect(call.id ?? (await this.#find(call, call.begunAt)), call),
    );
  }

  close(): void {
    this.#api.close();
  }

  /** Makes the batch; one whose id was lost on the way is looked for. */
  async #create(call: DriverCall, begunAt: number): Promise<string> {
    const { env, times } = this.#api;
    const params = messagesBody(call.request, call.model);
    const body = batchBody(call.tag, params);
    const headers = { [VERSION_HEADER]: versionFor(params) };
    if (call.signal.aborted) throw new OrchdError('CANCELLED');
    // A batch whose id is not known cannot be cancelled: a cancelled call waits for it a little.
    const stop = new AbortController();
    let cancelWait = (): void => undefined;
    const onAbort = (): void => {
      cancelWait = env.timers.after(times.cancelMs.id, () => stop.abort());
    };
    call.signal.addEventListener('abort', onAbort);
    try {
      const { id } = batchState(await this.#api.create({ path: PATH, body, headers }, stop.signal));
      await call.keepId(id);
      return id;
    } catch (error) {
      if (call.signal.aborted && isAborted(error)) throw unconfirmed();
      if (call.signal.aborted || !isLost(error)) throw error;
      return await this.#find(call, begunAt);
    } finally {
      call.signal.removeEventListener('abort', onAbort);
      cancelWait();
    }
  }

  async #collect(id: string, call: Batched): Promise<ExecutionResult> {
    const { signal } = call;
    try {
      const line = await this.#api.poll(signal, this.#api.times.waitMs, () => this.#look(id, call, signal));
      const result = batchResult(line);
      call.noteUsage(result.usage);
      emitWhole(result, call.emit);
      return result;
    } catch (error) {
      if (signal.aborted && !(await this.#cancel(id, call))) throw unconfirmed();
      throw error;
    }
  }

  /** The result of the call in a batch that has ended; undefined while it has not. */
  async #look(id: string, { tag }: Batched, signal: AbortSignal): Promise<JsonObject | undefined> {
    const batch = batchState(objectOf(await this.#api.read(pathOf(id), signal)));
    if (!batch.hasEnded) return undefined;
    const line = resultLine(await this.#results(batch, signal), tag);
    if (line) return line;
    throw new OrchdError('UNKNOWN_OUTCOME', 'the results of the batch are without the one of the call');
  }

  /** The lines of a batch's results. A provider that sends us to another origin would get the key there: refused. */
  async #results({ resultsUrl }: BatchState, signal: AbortSignal): Promise<string> {
    if (resultsUrl === undefined)
      throw new OrchdError('UNKNOWN_OUTCOME', 'the provider has deleted the results of the batch');
    const path = this.#api.pathOf(resultsUrl);
    if (path === undefined)
      throw new OrchdError('UNKNOWN_OUTCOME', 'the results of the batch are at another origin: not read');
    return this.#api.read(path, signal);
  }

  /**
   * Looks through the batches that were made since the call was begun. A batch that still runs may be the one: it is
   * waited for. Returns the id, which is kept.
   */
  async #find({ tag, signal, keepId }: Batched, begunAt: number): Promise<string> {
    const { clock } = this.#api.env;
    const { times } = this.#api;
    const strangers = new Set<string>();
    const lookedSince = clock.monotonic();
    const id = await this.#api.poll(signal, times.waitMs, async () => {
      const batches = await this.#listSince(begunAt - CLOCK_SKEW_MS, signal);
      const open = batches.filter(({ id, requests }) => !strangers.has(id) && requests <= 1);
      for (const batch of open.filter(({ hasEnded }) => hasEnded)) {
        if (await this.#isOurs(batch, tag, signal)) return batch.id;
        strangers.add(batch.id);
      }
      const mayCome = clock.monotonic() - lookedSince < times.findMs;
      if (mayCome || open.some(({ hasEnded }) => !hasEnded)) return undefined;
      throw new OrchdError('UNKNOWN_OUTCOME', 'the provider has no batch with this call');
    });
    await keepId(id);
    return id;
  }

  /** Results that are gone or elsewhere are those of a stranger, as far as can be known. */
  async #isOurs(batch: BatchState, tag: string, signal: AbortSignal): Promise<boolean> {
    try {
      return resultLine(await this.#results(batch, signal), tag) !== undefined;
    } catch (error) {
      if (error instanceof OrchdError && error.code === 'UNKNOWN_OUTCOME') return false;
      throw error;
    }
  }

  /** The batches since a time, of which the newest are listed first. */
  async #listSince(since: number, signal: AbortSignal): Promise<BatchState[]> {
    const found: BatchState[] = [];
    let query = `limit=${PAGE}`;
    for (let page = 0; page < MAX_PAGES; page++) {
      const list = objectOf(await this.#api.read(`${PATH}?${query}`, signal));
      const batches = listOf(list['data']).map((item) => batchState(fieldsOf(item)));
      const recent = batches.filter(({ createdAt }) => createdAt === undefined || createdAt >= since);
      found.push(...recent);
      const last = batches.at(-1);
      if (list['has_more'] !== true || !last || recent.length < batches.length) return found;
      query = `limit=${PAGE}&after_id=${encodeURIComponent(last.id)}`;
    }
    throw protocolError('lists more batches than are looked through');
  }

  /** Orders the end of a batch, and waits a little for what it has used: it may have ended before. */
  async #cancel(id: string, call: Batched): Promise<boolean> {
    await this.#api.order(`${pathOf(id)}/cancel`);
    const line = await this.#api.lookBriefly((signal) => this.#look(id, call, signal));
    if (!line) return false;
    noteUsageIn(line, call);
    return true;
  }
}

const pathOf = (id: string): string => `${PATH}/${encodeURIComponent(id)}`;

/** Notes what a request of a batch that was cancelled has used: it may have ended before, and else is not charged for. */
function noteUsageIn(line: JsonObject, { noteUsage }: Batched): void {
  try {
    noteUsage(batchResult(line).usage);
  } catch (error) {
    if (error instanceof OrchdError && error.details.isUncharged)
      noteUsage({ prompt_tokens: 0, completion_tokens: 0 });
  }
}
