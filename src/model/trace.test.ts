import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spanIdOf, traceBelow, traceIdOf, traceIn, traceparentIn, traceparentOf } from './trace.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

test('a well-formed traceparent is taken, with the flags that are known', () => {
  assert.equal(traceIn(`00-${TRACE}-${SPAN}-01`), `${TRACE}-${SPAN}-01`);
  assert.equal(traceIn(`00-${TRACE}-${SPAN}-ff`), `${TRACE}-${SPAN}-03`);
  // A later version may have more parts.
  assert.equal(traceIn(`cc-${TRACE}-${SPAN}-01-what-the-future-brings`), `${TRACE}-${SPAN}-01`);
});

test('a malformed one is ignored', () => {
  const zeros = '0'.repeat(32);
  for (const text of [
    '',
    'x',
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-01 `,
    `00-${TRACE}-${SPAN}-1`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${zeros}-${SPAN}-01`,
    `00-${TRACE}-${zeros.slice(16)}-01`,
    // Two headers of this name.
    `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
    undefined,
    [`00-${TRACE}-${SPAN}-01`],
  ]) {
    assert.equal(traceIn(text), undefined, String(text));
    assert.equal(traceparentIn({ traceparent: text }), undefined, String(text));
  }
});

test('ids follow from the job and its attempt, and differ where these do', () => {
  const job = { createdAt: 5 };
  assert.match(traceIdOf('a', job), /^[0-9a-f]{32}$/);
  assert.equal(traceIdOf('a', job), traceIdOf('a', { createdAt: 5 }));
  const spans = [
    spanIdOf('a', job, 0),
    spanIdOf('a', job, 1),
    spanIdOf('b', job, 1),
    spanIdOf('a', { createdAt: 6 }, 1),
  ];
  assert.equal(new Set(spans).size, 4);
  for (const span of spans) assert.match(span, /^[0-9a-f]{16}$/);
  assert.notEqual(traceIdOf('a', job), traceIdOf('a', { createdAt: 6 }));
});

test('jobs below and executors are in the trace of the caller, each with a span of its own', () => {
  const run = { createdAt: 5, trace: traceIn(`00-${TRACE}-${SPAN}-01`) };
  const trace = traceBelow('r', run);
  assert.equal(trace, `${TRACE}-${spanIdOf('r', run, 0)}-01`);
  const call = { createdAt: 6, trace };
  assert.equal(traceparentOf('r.1', call, 2), `00-${TRACE}-${spanIdOf('r.1', call, 2)}-01`);
  assert.equal(traceparentOf('plain', { createdAt: 5 }, 1), undefined);
  // A run without a caller's trace begins one.
  assert.equal(traceBelow('r', { createdAt: 5 }).slice(0, 32), traceIdOf('r', { createdAt: 5 }));
});
