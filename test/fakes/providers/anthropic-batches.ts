/** Anthropic's message batches. A batch ends by itself, unless it is held at `before-end`. */
import { wholeMessage } from './anthropic-messages.ts';
import { type Exchange, type Json, send } from './provider.ts';
import type { Fault, Stage } from './stage.ts';

const PATH = '/v1/messages/batches';
const DAY_MS = 86_400_000;

interface Batch {
  readonly id: string;
  readonly createdAt: number;
  readonly requests: readonly Json[];
  readonly fault: Fault | undefined;
  readonly cancelled: PromiseWithResolvers<void>;
  status: 'in_progress' | 'canceling' | 'ended';
  isCancelled: boolean;
}

export class AnthropicBatches {
  readonly #stage: Stage;
  readonly #url: () => string;
  readonly #batches: Batch[] = [];

  constructor(stage: Stage, url: () => string) {
    this.#stage = stage;
    this.#url = url;
  }

  async create({ body, response }: Exchange, id: string, fault: Fault | undefined): Promise<void> {
    const batch: Batch = {
      id,
      createdAt: Date.now(),
      requests: body.requests,
      fault,
      cancelled: Promise.withResolvers(),
      status: 'in_progress',
      isCancelled: false,
    };
    this.#batches.push(batch);
    if (fault?.name === 'cut_mid') response.destroy();
    else send(response, 200, this.#view(batch));
    await this.#stage.at('before-end', batch.cancelled.promise);
    batch.status = 'ended';
  }

  read({ method, url, response }: Exchange): boolean {
    const [id = '', order] = url.pathname.slice(PATH.length + 1).split('/');
    if (id === '') {
      this.#list(url, response);
      return true;
    }
    const batch = this.#batches.find((each) => each.id === id);
    if (!batch || this.#stage.expired.has(id)) return false;
    if (method === 'POST' && order === 'cancel') this.#cancel(batch);
    else if (order === 'results' && batch.status === 'ended') {
      response.writeHead(200, { 'content-type': 'application/x-jsonl' });
      response.end(batch.requests.map((request) => `${JSON.stringify(resultOf(batch, request))}\n`).join(''));
      return true;
    } else if (method !== 'GET' || order !== undefined) return false;
    send(response, 200, this.#view(batch));
    return true;
  }

  #cancel(batch: Batch): void {
    if (batch.status !== 'in_progress') return;
    batch.status = 'canceling';
    batch.isCancelled = true;
    batch.cancelled.resolve();
  }

  #list(url: URL, response: Exchange['response']): void {
    const limit = Number(url.searchParams.get('limit') ?? 20);
    const after = url.searchParams.get('after_id');
    const newest = [...this.#batches].reverse().filter(({ id }) => !this.#stage.expired.has(id));
    const from = after === null ? 0 : newest.findIndex(({ id }) => id === after) + 1;
    const data = newest.slice(from, from + limit).map((batch) => this.#view(batch));
    const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    send(response, 200, { data, has_more: from + limit < newest.length, ...ends });
  }

  #view(batch: Batch): Json {
    const { id, createdAt, requests, status, fault, isCancelled } = batch;
    const hasEnded = status === 'ended';
    const kind = hasEnded ? kindOf(batch) : 'processing';
    const host = fault?.name === 'foreign_results' ? fault.location : this.#url();
    const counts = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
    return {
      id,
      type: 'message_batch',
      processing_status: status,
      request_counts: { ...counts, [kind]: requests.length },
      created_at: new Date(createdAt).toISOString(),
      expires_at: new Date(createdAt + DAY_MS).toISOString(),
      ended_at: hasEnded ? new Date().toISOString() : null,
      cancel_initiated_at: isCancelled ? new Date().toISOString() : null,
      archived_at: null,
      results_url: hasEnded ? `${host}${PATH}/${id}/results` : null,
    };
  }
}

function kindOf({ fault, isCancelled }: Batch): 'succeeded' | 'errored' | 'canceled' | 'expired' {
  if (isCancelled) return 'canceled';
  if (fault?.name === 'expires') return 'expired';
  return fault?.name === 'fails' ? 'errored' : 'succeeded';
}

function resultOf(batch: Batch, { custom_id, params }: Json): Json {
  const type = kindOf(batch);
  const error = {
    type: 'error',
    error: { type: 'api_error', message: 'The model failed.' },
    request_id: null,
  };
  const message = wholeMessage(`msg_${batch.id}`, params);
  return {
    custom_id,
    result: { type, ...(type === 'succeeded' && { message }), ...(type === 'errored' && { error }) },
  };
}
