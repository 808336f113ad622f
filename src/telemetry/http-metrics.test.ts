import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { Route } from '../wire/route.ts';
import { HttpTally, httpMetrics } from './http-metrics.ts';

const ROUTE = { method: 'GET', path: '/v2/tasks/:id' } as Route;

async function linesOf(tally: HttpTally): Promise<string[]> {
  const registry = new Registry();
  httpMetrics(tally, registry);
  return (await registry.metrics()).split('\n');
}

test('requests are counted by the pattern of their route, and those without one in a single place', async () => {
  const tally = new HttpTally();
  const request = { isStream: false, tookMs: 3 };
  for (const status of [200, 204, 404, undefined])
    tally.answered({ ...request, route: ROUTE, method: 'GET', status });
  for (const method of ['GET', 'GET', 'PROPFIND', 'MKCOL'])
    tally.answered({ ...request, route: undefined, method, status: 404 });
  const lines = await linesOf(tally);
  for (const line of [
    'orchd_http_requests_total{route="/v2/tasks/:id",method="GET",status="2xx"} 2',
    'orchd_http_requests_total{route="/v2/tasks/:id",method="GET",status="4xx"} 1',
    'orchd_http_requests_total{route="/v2/tasks/:id",method="GET",status="left"} 1',
    'orchd_http_requests_total{route="none",method="GET",status="4xx"} 2',
    'orchd_http_requests_total{route="none",method="other",status="4xx"} 2',
    'orchd_http_request_duration_seconds_count{route="/v2/tasks/:id",method="GET"} 3',
    'orchd_http_request_duration_seconds_bucket{le="0.0025",route="/v2/tasks/:id",method="GET"} 0',
    'orchd_http_request_duration_seconds_bucket{le="0.005",route="/v2/tasks/:id",method="GET"} 3',
  ])
    assert.ok(lines.includes(line), `${line}\nis not in\n${lines.join('\n')}`);
});

test('a stream is counted, and not how long it lasts', async () => {
  const tally = new HttpTally();
  tally.answered({ route: ROUTE, method: 'GET', status: 200, isStream: true, tookMs: 3_600_000 });
  const lines = await linesOf(tally);
  assert.ok(lines.includes('orchd_http_requests_total{route="/v2/tasks/:id",method="GET",status="2xx"} 1'));
  assert.ok(
    lines.includes('orchd_http_request_duration_seconds_count{route="/v2/tasks/:id",method="GET"} 0'),
  );
});
