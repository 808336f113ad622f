/**
 * A gateway over real HTTP that speaks gateway-wire.ts and does what a test orders: seats come, go and get busy, answers
 * get lost, and the work of a request is steered by its job.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { checker } from '../../src/kit/check.ts';
import { ERRORS, OrchdError } from '../../src/model/errors.ts';
import { type SeatState, SeatsOrder, SubmitImmediate } from '../../src/model/gateway-wire.ts';
import type { BusyReason } from '../../src/model/reasons.ts';
import { HASH_HEADER, REGISTRY_HEADER } from '../../src/model/worker-wire.ts';
import { Epochs } from '../../src/wire/epochs.ts';
import { FakeRequest, GatewayMemory } from './gateway-memory.ts';
import { SteeredWorks } from './steered-work.ts';

export interface FakeSeat {
  models: string[];
  slots: number;
  batched?: boolean;
  /** Immediate requests are refused with it. */
  busy?: { readonly reason: BusyReason; readonly retryAfterMs: number } | undefined;
}

export interface SeenCall {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const checkOrder = checker(SeatsOrder);
const checkSubmit = checker(SubmitImmediate);

type Handle = (call: SeenCall, response: ServerResponse, id: string) => unknown;

export class FakeGateway {
  readonly works = new SteeredWorks();
  readonly seats = new Map<string, FakeSeat>();
  readonly calls: SeenCall[] = [];
  readonly orders: SeatsOrder[] = [];
  /** Paths of which the next answer is lost: the call has its effect, and the connection is cut. */
  readonly losing: RegExp[] = [];
  /** Requests end by themselves, but for those with the prompt `hold`, which POST /release ends. */
  answersAtOnce = false;
  /** The token that it demands. */
  token: string | undefined;
  /** Seats come with PUT /seats, as at the real one. */
  memory: GatewayMemory;
  readonly #epochs = new Epochs();
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #polls = new Set<() => void>();
  #version = 1;

  constructor(seats: Readonly<Record<string, FakeSeat>> = {}) {
    for (const [name, seat] of Object.entries(seats)) this.seats.set(name, seat);
    this.memory = new GatewayMemory(randomBytes(8).toString('hex'));
  }

  async listen(port = 0): Promise<string> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    return this.url;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await this.works.end();
  }

  /** Changes something and tells those who wait for a change. */
  change(change: () => void): void {
    change();
    this.#version++;
    for (const wake of [...this.#polls]) wake();
  }

  /** Number of requests whose work has begun for a job. */
  begun(job: string): number {
    return this.memory.requests.filter(({ jobId }) => jobId === job).length;
  }

  /** The paths that were called with this method. */
  paths(method: string): string[] {
    return this.calls.filter((call) => call.method === method).map(({ path }) => path.replace(/\?.*/, ''));
  }

  readonly #routes: readonly [string, RegExp, Handle][] = [
    ['PUT', /^\/seats$/, (call, response) => this.#order(call, response)],
    ['GET', /^\/seats$/, (call, response) => this.#seatsRoute(call, response)],
    ['POST', /^\/submit_immediate$/, (call, response) => this.#submit(call, response)],
    ['POST', /^\/release$/, (_, response) => this.#release(response)],
    ['GET', /^\/active_requests$/, (call, response) => this.#list(call, response)],
    ['GET', /^\/requests\/([^/]+)$/, (call, response, id) => this.#state(call, response, id)],
    ['GET', /^\/requests\/([^/]+)\/events$/, (call, response, id) => this.#events(call, response, id)],
    ['POST', /^\/requests\/([^/]+)\/ack$/, (call, response, id) => this.#ack(call, response, id)],
    ['POST', /^\/requests\/([^/]+)\/erase$/, (call, response, id) => this.#erase(call, response, id)],
    ['POST', /^\/requests\/([^/]+)\/kill$/, (call, response, id) => this.#kill(call, response, id)],
  ];

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const call: SeenCall = { method, path: url, headers, body: await text(request).catch(() => '') };
    this.calls.push(call);
    const path = url.replace(/\?.*/, '');
    const lost = this.losing.findIndex((each) => each.test(path));
    if (lost >= 0) {
      this.losing.splice(lost, 1);
      // The answer is made and never sent.
      response.write = response.end = (() => response.destroy()) as never;
      response.writeHead = (() => response) as never;
    }
    try {
      if (this.token !== undefined && headers.authorization !== `Bearer ${this.token}`)
        throw new OrchdError('UNAUTHORIZED');
      const found = this.#routes.find(([verb, pattern]) => verb === method && pattern.test(path));
      if (!found) throw new OrchdError('NOT_FOUND');
      const [, pattern, handle] = found;
      await handle(call, response, decodeURIComponent(pattern.exec(path)?.[1] ?? ''));
    } catch (error) {
      fail(response, error);
    }
  }

  #order({ body }: SeenCall, response: ServerResponse): void {
    const order = checkOrder(JSON.parse(body));
    this.orders.push(order);
    this.change(() => {
      this.seats.clear();
      for (const { name, models, slots } of order.seats)
        this.seats.set(name, { models: Object.keys(models), slots });
    });
    response.writeHead(204).end();
  }

  async #seatsRoute({ path }: SeenCall, response: ServerResponse): Promise<void> {
    const query = new URL(path, 'http://x').searchParams;
    if (query.get('after') === String(this.#version) && query.has('wait_ms'))
      await new Promise<void>((resolve) => {
        const done = (): void => {
          this.#polls.delete(done);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(done, Number(query.get('wait_ms')));
        this.#polls.add(done);
        response.on('close', done);
      });
    const { registry, running, unacknowledged } = this.memory;
    const seats = [...this.seats].map(([name, seat]) => this.#seatState(name, seat));
    json(response, 200, { version: this.#version, registry, seats, running, unacknowledged });
  }

  #seatState(name: string, { models, slots, batched, busy }: FakeSeat): SeatState {
    const running = this.#runningOn(name);
    const reason = busy?.reason ?? (running >= slots ? 'occupied' : undefined);
    return {
      name,
      driver: 'openai-chat',
      models,
      slots,
      running,
      ...(reason && { busy: reason }),
      high_priority_pending: false,
      queued: 0,
      finds: 'token',
      ...(batched !== undefined && { batched }),
    };
  }

  #runningOn(seat: string): number {
    return this.memory.requests.filter((each) => each.seat === seat && !each.outcome).length;
  }

  #submit({ body, headers }: SeenCall, response: ServerResponse): void {
    const { owner } = this.#epochs.check(headers);
    const { backend, payload, idempotency_token: token, job_id: jobId = '' } = checkSubmit(JSON.parse(body));
    const hash = headers[HASH_HEADER] as string | undefined;
    const registry = headers[REGISTRY_HEADER];
    if (registry !== undefined && registry !== this.memory.registry) throw busy('occupied', 50);
    const known = this.memory.find(owner, token);
    if (known === 'tombstone') throw new OrchdError('TOMBSTONED');
    if (known) {
      if (hash !== undefined && known.hash !== undefined && hash !== known.hash)
        throw new OrchdError('TOKEN_CONFLICT');
      return stream(known, 0, response);
    }
    const seat = this.seats.get(backend);
    if (!seat) throw new OrchdError('NOT_FOUND', `there is no seat "${backend}"`);
    if (seat.busy) throw busy(seat.busy.reason, seat.busy.retryAfterMs);
    if (this.#runningOn(backend) >= seat.slots) throw busy('occupied', 50);
    const { prompt, messages } = payload as { prompt?: string; messages?: unknown[] };
    if (prompt === undefined && !messages?.length) throw new OrchdError('INVALID_PARAMS', 'nothing to do');
    const request = new FakeRequest({ owner, token, jobId, seat: backend, hash });
    this.change(() => this.memory.add(request));
    void this.#run(request, prompt);
    stream(request, 0, response);
  }

  async #run(request: FakeRequest, prompt: string | undefined): Promise<void> {
    if (this.answersAtOnce && prompt !== 'hold') void this.#finish(request.jobId, `You said: ${prompt}`);
    const ordered = await this.works.of(request.jobId).run(prompt, (piece) => request.say(piece));
    const usage = { prompt_tokens: 1, completion_tokens: request.pieces };
    this.change(() =>
      request.end(
        ordered.ok
          ? { ok: true, result: { text: ordered.text, finish_reason: 'stop', usage } }
          : {
              ok: false,
              error: { code: 'EXECUTION_FAILED', message: 'ordered', retriable: ordered.retriable },
            },
      ),
    );
  }

  async #finish(job: string, answer: string): Promise<void> {
    await this.works.of(job).say(answer);
    await this.works.of(job).succeed();
  }

  async #release(response: ServerResponse): Promise<void> {
    for (const { jobId } of this.memory.requests) await this.#finish(jobId, 'released');
    response.writeHead(204).end();
  }

  #list({ headers }: SeenCall, response: ServerResponse): void {
    const { owner } = this.#epochs.check(headers);
    const own = this.memory.requests.filter((each) => each.owner === owner && !each.isAcknowledged);
    const requests = own.map(({ token, jobId, seat, state, startedAt, hash }) => ({
      request_id: token,
      idempotency_token: token,
      job_id: jobId,
      backend: seat,
      state,
      started_at: startedAt,
      ...(hash !== undefined && { hash }),
    }));
    json(response, 200, { ...this.#memoryOf(owner), requests });
  }

  #state({ headers }: SeenCall, response: ServerResponse, id: string): void {
    const { token, jobId, seat, state, outcome } = this.#request(headers, id);
    json(response, 200, { request_id: token, job_id: jobId, backend: seat, state, outcome });
  }

  #events({ headers, path }: SeenCall, response: ServerResponse, id: string): void {
    const from = Number(new URL(path, 'http://x').searchParams.get('from') ?? 0);
    stream(this.#request(headers, id), from, response);
  }

  #ack({ headers }: SeenCall, response: ServerResponse, id: string): void {
    const { owner } = this.#epochs.check(headers);
    const known = this.memory.find(owner, id);
    if (known && known !== 'tombstone') {
      if (!known.outcome) throw new OrchdError('ILLEGAL_STATE');
      this.change(() => {
        known.isAcknowledged = true;
      });
    }
    response.writeHead(204).end();
  }

  #erase(call: SeenCall, response: ServerResponse, id: string): void {
    const { owner } = this.#epochs.check(call.headers);
    const known = this.memory.find(owner, id);
    this.#ack(call, response, id);
    if (known && known !== 'tombstone') known.erase();
  }

  #kill({ headers, body }: SeenCall, response: ServerResponse, id: string): void {
    const { owner } = this.#epochs.check(headers);
    const { how = 'end' } = JSON.parse(body) as { how?: string };
    const known = this.memory.find(owner, id);
    if (!known) this.memory.bury(owner, id);
    if (known && known !== 'tombstone' && how === 'end') this.change(() => known.end({ ok: 'cancelled' }));
    const request = known === 'tombstone' ? undefined : known;
    const { outcome, hash } = request ?? {};
    const is = !request ? 'tombstoned' : outcome ? 'ended' : 'running';
    json(response, 202, { ...this.#memoryOf(owner), is, ...(outcome && { outcome }), ...(hash && { hash }) });
  }

  #request(headers: IncomingHttpHeaders, id: string): FakeRequest {
    const found = this.memory.find(this.#epochs.check(headers).owner, id);
    if (!found || found === 'tombstone') throw new OrchdError('NOT_FOUND');
    return found;
  }

  #memoryOf(owner: string): object {
    const opening_before = this.#epochs.openingBefore(owner);
    const { registry, since } = this.memory;
    return { registry, remembered_since: since, ...(opening_before && { opening_before }) };
  }
}

function busy(reason: BusyReason, retryAfterMs: number): OrchdError {
  return new OrchdError('WORKER_BUSY', undefined, { reason, retryAfterMs });
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function fail(response: ServerResponse, thrown: unknown): void {
  const error = thrown instanceof OrchdError ? thrown : new OrchdError('INTERNAL', String(thrown));
  const { reason, retryAfterMs } = error.details;
  json(response, ERRORS[error.code].status, {
    error: {
      code: error.code,
      message: error.message,
      retriable: error.retriable,
      ...(reason !== undefined && { reason }),
      ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
    },
  });
}

/** Sends the events after `from` as they come. */
function stream(request: FakeRequest, from: number, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  let sent = from;
  const send = (): void => {
    for (const { n, type, text: data } of request.events.slice(sent)) {
      sent = n;
      response.write(`id: ${n}\nevent: ${type}\ndata: ${data}\n\n`);
    }
    if (!request.outcome) return;
    stop();
    response.end();
  };
  const stop = request.follow(send);
  response.on('close', stop);
  send();
}
