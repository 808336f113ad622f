import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '../kit/logger.ts';
import { OrchdError } from '../model/errors.ts';
import { RefusalLog } from './refusal-log.ts';

const REQUEST = { route: 'GET /v2/tasks', address: '192.0.2.7', correlationId: 'c' };

function logOf(): { log: RefusalLog; lines: Record<string, unknown>[]; endWindow: () => void } {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({ write: (line) => lines.push(JSON.parse(line)), now: () => 0 });
  let run: (() => void) | undefined;
  const timers = {
    soon: () => undefined,
    after: (_: number, then: () => void) => {
      run = then;
      return () => {
        run = undefined;
      };
    },
  };
  return { log: new RefusalLog(logger, timers), lines, endWindow: () => run?.() };
}

test('a refused request leaves a line with the reason, the route and the address', () => {
  const { log, lines } = logOf();
  log.note(new OrchdError('FORBIDDEN', 'this needs the role "admin"'), REQUEST);
  const { error_code, reason, route, address, level } = lines[0] ?? {};
  assert.deepEqual(
    [level, error_code, reason, route, address],
    ['warn', 'FORBIDDEN', 'this needs the role "admin"', 'GET /v2/tasks', '192.0.2.7'],
  );
});

test('of many refused requests ten leave a line in ten seconds, and the others are counted', () => {
  const { log, lines, endWindow } = logOf();
  const error = new OrchdError('UNAUTHORIZED');
  for (let n = 0; n < 1000; n++) log.note(error, REQUEST);
  assert.equal(lines.length, 10);
  endWindow();
  assert.equal(lines.at(-1)?.['count'], 990);
  log.note(error, REQUEST);
  assert.equal(lines.length, 12, 'the next window has lines of its own');
  log.stop();
  assert.equal(lines.length, 12);
});
