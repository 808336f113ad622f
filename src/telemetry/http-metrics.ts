/** Counts the requests of the HTTP server. A route is counted by its pattern: a raw path would be a label without bound. */
import type { Registry } from 'prom-client';
import type { ErrorCode } from '../model/errors.ts';
import type { AnsweredRequest, HttpObserver } from '../wire/http-observer.ts';
import type { Route } from '../wire/route.ts';
import { Buckets, histogram, LATENCY_SEC } from './buckets.ts';
import { counter, type Sample } from './family.ts';

const NO_ROUTE = 'none';
/** Methods counted by their name; the parser of Node knows three dozen. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** The caller left before the answer began. */
const LEFT = 'left';

class RequestCounts {
  readonly byStatus = new Map<string, number>();
  readonly durationSec = new Buckets(LATENCY_SEC);
}

export class HttpTally implements HttpObserver {
  /** The routes of a server are a fixed table. */
  readonly #routes = new Map<Route, RequestCounts>();
  /** Requests without a route, by method. */
  readonly #unrouted = new Map<string, RequestCounts>();
  /** Bodies that were not read, by error code. */
  readonly bodiesRefused = new Map<ErrorCode, number>();

  answered({ route, method, status, isStream, tookMs }: AnsweredRequest): void {
    const counts = route ? found(this.#routes, route) : found(this.#unrouted, methodLabel(method));
    const name = status === undefined ? LEFT : `${Math.floor(status / 100)}xx`;
    counts.byStatus.set(name, (counts.byStatus.get(name) ?? 0) + 1);
    // A stream takes as long as its job: it would hide how long the server itself takes.
    if (!isStream && status !== undefined) counts.durationSec.note(tookMs / 1000);
  }

  bodyRefused(code: ErrorCode): void {
    this.bodiesRefused.set(code, (this.bodiesRefused.get(code) ?? 0) + 1);
  }

  *counts(): Generator<readonly [labels: Record<string, string>, counts: RequestCounts]> {
    for (const [{ path, method }, counts] of this.#routes) yield [{ route: path, method }, counts];
    for (const [method, counts] of this.#unrouted) yield [{ route: NO_ROUTE, method }, counts];
  }
}

const methodLabel = (method: string): string => (METHODS.has(method) ? method : 'other');

function found<K>(counts: Map<K, RequestCounts>, key: K): RequestCounts {
  let entry = counts.get(key);
  if (!entry) {
    entry = new RequestCounts();
    counts.set(key, entry);
  }
  return entry;
}

export function httpMetrics(tally: HttpTally, registry: Registry): void {
  counter({
    name: 'orchd_http_requests_total',
    help: 'Requests that are over, by route, method and class of the status',
    registry,
    samples: () => requests(tally),
  });
  histogram({
    name: 'orchd_http_request_duration_seconds',
    help: 'From the head of a request to the end of its answer, without event streams',
    registry,
    series: () => Array.from(tally.counts(), ([labels, { durationSec }]) => [labels, durationSec] as const),
  });
  counter({
    name: 'orchd_http_bodies_refused_total',
    help: 'Request bodies that were refused unread or unparsed, by error code',
    registry,
    samples: () => Array.from(tally.bodiesRefused, ([code, count]) => [{ code }, count] as const),
  });
}

function* requests(tally: HttpTally): Generator<Sample> {
  for (const [labels, { byStatus }] of tally.counts())
    for (const [status, count] of byStatus) yield [{ ...labels, status }, count];
}
