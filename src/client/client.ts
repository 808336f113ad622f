/**
 * The TypeScript client that the command line, the dashboard and users share. It uses HTTP only, and runs in browsers
 * too.
 */
import { ERRORS, OrchdError } from '../model/errors.ts';
import type { BatchView, BulkCommand, BulkOutcome, CreateBatch } from '../model/http/batches.ts';
import type { BulkAnswer, JobPage, JobView, SubmittedTask } from '../model/http/jobs.ts';
import type { McpServerList, McpServerView } from '../model/http/mcp.ts';
import type { Capabilities, Health, ResumedSeat } from '../model/http/meta.ts';
import type { ModuleView } from '../model/http/modules.ts';
import type { PoolView } from '../model/http/pools.ts';
import type { PricesView, WrittenPrice } from '../model/http/prices.ts';
import type { RouteView } from '../model/http/routes.ts';
import type { AgentView, ApprovalView, ApproveCall, RunView, StartedRun } from '../model/http/runs.ts';
import type { SchedulePage, ScheduleView, WrittenSchedule } from '../model/http/schedules.ts';
import type { Status } from '../model/http/status.ts';
import type { LedgerLine, UsageReport } from '../model/http/usage.ts';
import type { ListRequest, ResolveRequest, SubmitRequest } from '../model/submit.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import type { ParsedError } from '../wire/read-error.ts';
import { readEvents, type SseEvent } from '../wire/sse.ts';
import { errorOf, isOrchdAnswer, noAnswerError, notOrchdError } from './answers.ts';
import { type ApprovalList, type ApprovalQuery, allApprovals, approvalPath } from './approvals.ts';
import {
  type BatchResult,
  type ResultsOptions,
  readResults,
  type WaitOptions,
  waitForBatch,
} from './batches.ts';
import { ClientError } from './client-error.ts';
import type { PatienceOptions } from './patience.ts';
import type { Requests } from './requests.ts';
import { type RunEvent, type RunRequest, runEvents, startRun } from './runs.ts';
import { SessionClient } from './sessions.ts';
import {
  type JobSource,
  type LineAnswer,
  randomId,
  type SubmitLinesOptions,
  submitLines,
} from './submit-lines.ts';
import type { FollowOptions, TaskEvent } from './task-events.ts';
import { type LedgerOptions, readLedger, type UsageRequest, usageQuery } from './usage.ts';

export type { BatchResult, ResultsOptions, WaitOptions } from './batches.ts';
export { ClientError } from './client-error.ts';
export type { RunEvent, RunRequest } from './runs.ts';
export type { JobLine, JobSource, LineAnswer, SubmitLinesOptions } from './submit-lines.ts';
export type { FollowOptions, TaskEvent } from './task-events.ts';
export type { LedgerOptions, UsageRequest, UsageWindow } from './usage.ts';

export interface ClientOptions {
  /** URL of the brain; `http://127.0.0.1:8080` by default. */
  readonly url?: string;
  readonly token?: string;
  readonly fetch?: typeof fetch;
}

const DEFAULT_URL = 'http://127.0.0.1:8080';
const RECONNECT_DELAY_MS = 250;
const DEFAULT_PATIENCE_MS = 60_000;
const CALL_TIMEOUT_MS = 30_000;
/** A command for many jobs is answered when all of them are changed, sums when all charges of the time were read. */
const BULK_TIMEOUT_MS = 300_000;

export class OrchdClient {
  readonly sessions: SessionClient;
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    this.#base = (options.url ?? DEFAULT_URL).replace(/\/+$/, '');
    this.#token = options.token;
    this.#fetch = options.fetch ?? fetch;
    this.sessions = new SessionClient((method, path, body) => this.#call(method, path, body));
  }

  submit(request: SubmitRequest): Promise<SubmittedTask> {
    return this.#call('POST', '/v2/tasks', request);
  }

  /** Submits up to 1,000 jobs at once, in one commit; returns an answer for each. */
  async submitMany(requests: readonly SubmitRequest[]): Promise<readonly BulkAnswer[]> {
    const { answers } = await this.#call<{ answers: BulkAnswer[] }>('POST', '/v2/tasks', requests);
    return answers;
  }

  /** `include`: a payload of more than 4 KiB is sent only if it is asked for. */
  get(jobId: string, { include }: { readonly include?: 'payload' } = {}): Promise<JobView> {
    const query = include ? `?include=${include}` : '';
    return this.#call('GET', `/v2/tasks/${encodeURIComponent(jobId)}${query}`);
  }

  list(request: ListRequest = {}): Promise<JobPage> {
    const query = new URLSearchParams();
    // A filter that is given several times (`tag`) is an array.
    for (const [name, value] of Object.entries(request))
      for (const each of [value].flat()) if (each !== undefined) query.append(name, String(each));
    return this.#call('GET', `/v2/tasks?${query}`);
  }

  cancel(jobId: string): Promise<JobView> {
    return this.#call('POST', `/v2/tasks/${encodeURIComponent(jobId)}/cancel`);
  }

  redrive(jobId: string): Promise<JobView> {
    return this.#call('POST', `/v2/tasks/${encodeURIComponent(jobId)}/redrive`);
  }

  resolve(jobId: string, request: ResolveRequest): Promise<JobView> {
    return this.#call('POST', `/v2/tasks/${encodeURIComponent(jobId)}/resolve`, request);
  }

  /**
   * Submits any number of jobs over one connection and yields an answer for each, in their order, while later ones are
   * still sent; no faster than the answers are taken. After a lost connection it goes on with the jobs that have no answer.
   */
  submitLines(source: JobSource, options: SubmitLinesOptions = {}): AsyncGenerator<LineAnswer> {
    return submitLines(this.#requests, source, options);
  }

  /** Creates a batch, or gives an existing one another name and other tags. */
  createBatch(request: CreateBatch = {}): Promise<BatchView> {
    return this.#call('POST', '/v2/batches', request);
  }

  batch(batchId: string): Promise<BatchView> {
    return this.#call('GET', `/v2/batches/${encodeURIComponent(batchId)}`);
  }

  /** The last changed first. `tag`: `name=value`, or several of which a batch must have all. */
  async batches(
    request: { readonly tag?: string | readonly string[]; readonly limit?: number } = {},
  ): Promise<readonly BatchView[]> {
    const query = new URLSearchParams([request.tag ?? []].flat().map((tag) => ['tag', tag]));
    if (request.limit !== undefined) query.set('limit', String(request.limit));
    const { batches } = await this.#call<{ batches: BatchView[] }>('GET', `/v2/batches?${query}`);
    return batches;
  }

  /**
   * Yields the jobs of a batch with their results, in the order of their admission. After a lost connection it goes on
   * behind the last one: none is yielded twice or left out.
   */
  results(batchId: string, options: ResultsOptions = {}): AsyncGenerator<BatchResult> {
    return readResults(this.#requests, batchId, options);
  }

  /** Resolves when no job of the batch is live; polls, and survives a restart of the brain. */
  waitForBatch(batchId: string, options: WaitOptions = {}): Promise<BatchView> {
    return waitForBatch(() => this.batch(batchId), options);
  }

  /** Cancels all live jobs that match a filter; with `dry_run` it only counts them. */
  cancelMany(command: BulkCommand): Promise<BulkOutcome> {
    return this.#call('POST', '/v2/tasks/cancel', command, BULK_TIMEOUT_MS);
  }

  /** Queues all dead jobs that match a filter again; with `dry_run` it only counts them. */
  redriveMany(command: BulkCommand): Promise<BulkOutcome> {
    return this.#call('POST', '/v2/tasks/redrive', command, BULK_TIMEOUT_MS);
  }

  /** What the attempts settled in a time have used and cost; by default since the first of this month. */
  usage(request: UsageRequest = {}): Promise<UsageReport> {
    return this.#call('GET', `/v2/usage?${usageQuery(request)}`, undefined, BULK_TIMEOUT_MS);
  }

  /**
   * Yields the attempts settled in a time, in the order of settlement; their costs add up to those of `usage`. After a
   * lost connection it goes on behind the last one.
   */
  ledger(options: LedgerOptions = {}): AsyncGenerator<LedgerLine> {
    return readLedger(this.#requests, options);
  }

  async agents(): Promise<readonly AgentView[]> {
    return (await this.#call<{ agents: AgentView[] }>('GET', '/v2/agents')).agents;
  }

  /** A page of the calls of tools that wait for somebody to allow them; `cursor` leads to the next. */
  approvalPage(query: ApprovalQuery = {}): Promise<ApprovalList> {
    return this.#call('GET', approvalPath(query));
  }

  /** All calls of tools that wait for somebody to allow them. */
  approvals(): Promise<readonly ApprovalView[]> {
    return allApprovals((query) => this.approvalPage(query));
  }

  approve(runId: string, answer: ApproveCall): Promise<RunView> {
    return this.#call('POST', `/v2/runs/${encodeURIComponent(runId)}/approve`, answer);
  }

  /** A paused run starts nothing until it is resumed. */
  orderRun(runId: string, order: 'pause' | 'resume'): Promise<RunView> {
    return this.#call('POST', `/v2/runs/${encodeURIComponent(runId)}/${order}`);
  }

  /** Starts a run of an agent; over a lost connection too, without starting a second one. */
  startRun(agent: string, request: RunRequest, options: PatienceOptions = {}): Promise<StartedRun> {
    const body = { run_id: `run-${randomId().slice(0, 16)}`, ...request };
    const path = `/v2/agents/${encodeURIComponent(agent)}/runs`;
    return startRun(() => this.#call('POST', path, body), options);
  }

  run(runId: string): Promise<RunView> {
    return this.#call('GET', `/v2/runs/${encodeURIComponent(runId)}`);
  }

  /** Yields the events of a run until its end, over lost connections and restarts of the brain. */
  runEvents(runId: string, options: PatienceOptions = {}): AsyncGenerator<RunEvent> {
    return runEvents(this.#requests, runId, options);
  }

  health(): Promise<Health> {
    return this.#call('GET', '/health');
  }

  capabilities(): Promise<Capabilities> {
    return this.#call('GET', '/v2/meta/capabilities');
  }

  /** The whole at one instant: queue, running and held jobs, backends, models, limits that are near. */
  status(): Promise<Status> {
    return this.#call('GET', '/v2/meta/status');
  }

  async routes(): Promise<readonly RouteView[]> {
    return (await this.#call<{ routes: RouteView[] }>('GET', '/v2/catalog/routes')).routes;
  }

  setRoute(name: string, steps: RouteView['steps']): Promise<RouteView> {
    return this.#call('PUT', `/v2/catalog/routes/${encodeURIComponent(name)}`, { steps });
  }

  async deleteRoute(name: string): Promise<void> {
    await this.#call('DELETE', `/v2/catalog/routes/${encodeURIComponent(name)}`);
  }

  /** A page of schedules in the order of their names, from the one after `after` on. */
  schedules(after?: string): Promise<SchedulePage> {
    const query = after === undefined ? '' : `?after=${encodeURIComponent(after)}`;
    return this.#call('GET', `/v2/schedules${query}`);
  }

  schedule(name: string): Promise<ScheduleView> {
    return this.#call('GET', `/v2/schedules/${encodeURIComponent(name)}`);
  }

  setSchedule(name: string, schedule: WrittenSchedule): Promise<ScheduleView> {
    return this.#call('PUT', `/v2/schedules/${encodeURIComponent(name)}`, schedule);
  }

  async deleteSchedule(name: string): Promise<void> {
    await this.#call('DELETE', `/v2/schedules/${encodeURIComponent(name)}`);
  }

  mcpServers(): Promise<McpServerList> {
    return this.#call('GET', '/v2/tools');
  }

  /** Allows the definition with this hash, which the server offers by now. */
  allowMcpTool(server: string, tool: string, hash: string): Promise<McpServerView> {
    return this.#call('POST', `/v2/tools/${encodeURIComponent(server)}/allow`, { tool, hash });
  }

  prices(): Promise<PricesView> {
    return this.#call('GET', '/v2/prices');
  }

  /** Replaces all prices. Attempts that are recorded already keep theirs. */
  setPrices(prices: readonly WrittenPrice[]): Promise<PricesView> {
    return this.#call('PUT', '/v2/prices', { prices });
  }

  /** Gives jobs again to a seat that was paused because its provider billed more than its bound. */
  resumeSeat(name: string): Promise<ResumedSeat> {
    return this.#call('POST', `/v2/seats/${encodeURIComponent(name)}/resume`);
  }

  async modules(): Promise<readonly ModuleView[]> {
    return (await this.#call<{ modules: ModuleView[] }>('GET', '/v2/modules')).modules;
  }

  /** Scans a module at once; returns its state as it was before. */
  scanModule(name: string): Promise<ModuleView> {
    return this.#call('POST', `/v2/modules/${encodeURIComponent(name)}/scan`);
  }

  async pools(): Promise<readonly PoolView[]> {
    return (await this.#call<{ pools: PoolView[] }>('GET', '/v2/pools')).pools;
  }

  /**
   * Yields the events of a job until its end. After a lost connection, or a restart of the brain, the stream is
   * resumed after the last event; no event is yielded twice.
   */
  async *events(jobId: string, options: FollowOptions = {}): AsyncGenerator<TaskEvent> {
    let after = options.after;
    let failingSince: number | undefined;
    for (;;) {
      try {
        for await (const event of this.#stream(jobId, after, options.signal, () => {
          failingSince = undefined;
        })) {
          after = event.id ?? after;
          const data = dataOf(event);
          if (event.event === 'error') throwIfStreamFailed(data);
          yield { id: event.id, event: event.event, data };
          if (event.event === 'end' || event.event === 'error') return;
        }
      } catch (error) {
        if (options.signal?.aborted) return;
        // A refused request or a malformed stream would fail in the same way again.
        if ((error instanceof ClientError || error instanceof OrchdError) && !error.retriable) throw error;
        failingSince ??= Date.now();
        if (Date.now() - failingSince > (options.patienceMs ?? DEFAULT_PATIENCE_MS)) throw error;
        options.onReconnect?.(error as Error);
      }
      if (after?.endsWith('.end')) return;
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_DELAY_MS));
    }
  }

  async *#stream(
    jobId: string,
    after: string | undefined,
    signal: AbortSignal | undefined,
    onOpen: () => void,
  ): AsyncGenerator<SseEvent> {
    const headers = this.#headers();
    if (after !== undefined) headers[LAST_EVENT_ID] = after;
    const path = `/v2/tasks/${encodeURIComponent(jobId)}/events`;
    const response = await this.#send(path, { headers, ...(signal && { signal }) });
    onOpen();
    if (!response.body || response.status === 204) return;
    yield* readEvents(response.body);
  }

  async #call<T>(method: string, path: string, body?: unknown, timeoutMs = CALL_TIMEOUT_MS): Promise<T> {
    const headers = this.#headers();
    if (body !== undefined) headers['content-type'] = 'application/json';
    const response = await this.#send(path, {
      method,
      headers,
      signal: AbortSignal.timeout(timeoutMs),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (response.status === 204) return undefined as T;
    return (await response.json().catch((error: Error) => {
      throw noAnswerError(this.#base, error, CALL_TIMEOUT_MS);
    })) as T;
  }

  /** Sends a request; throws unless a brain answers it with success. */
  async #send(path: string, init: RequestInit): Promise<Response> {
    const response = await this.#fetch(this.#base + path, { ...init, redirect: 'error' }).catch((error) => {
      throw noAnswerError(this.#base, error, CALL_TIMEOUT_MS);
    });
    if (!isOrchdAnswer(response)) throw notOrchdError(this.#base, response.status);
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  /** For calls that stream. */
  readonly #requests: Requests = {
    send: (path, init) => this.#send(path, { ...init, headers: { ...this.#headers(), ...init.headers } }),
    broken: (error) => noAnswerError(this.#base, error, CALL_TIMEOUT_MS),
  };

  #headers(): Record<string, string> {
    return this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
  }
}

/** The event `error` of a job's end has the job's state; without one the stream failed, not the job: a revoked token, say. */
function throwIfStreamFailed(data: unknown): void {
  const error = data as ParsedError & { readonly state?: unknown };
  if (error.state === undefined) throw new ClientError(ERRORS.UNAUTHORIZED.status, error);
}

/** An event that is not JSON does not come from a brain; a retry would receive the same. */
function dataOf({ data }: SseEvent): unknown {
  try {
    return JSON.parse(data);
  } catch {
    throw new OrchdError('WORKER_PROTOCOL', 'an event of the stream is not JSON');
  }
}
