import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BatchResult } from '../../client/client.ts';
import { csvHeader, csvRow } from './csv.ts';

const job = (fields: object): BatchResult =>
  ({ n: 1, job_id: 'b.1', state: 'succeeded', tries: 0, attempts: [], ...fields }) as unknown as BatchResult;

/** The cells of a row by their columns; for values without commas. */
function cellsOf(fields: object, hasPayload = false): Record<string, string> {
  const values = csvRow(job(fields), 1, hasPayload).trimEnd().split(',');
  return Object.fromEntries(
    csvHeader(hasPayload)
      .trimEnd()
      .split(',')
      .map((name, at) => [name, values[at] as string]),
  );
}

test('the duration is that of the last attempt, also where its outcome came before the acceptance', () => {
  const attempts = [
    { intended_at: 100, ended_at: 200 },
    { intended_at: 1000, accepted_at: 1500, ended_at: 1500 },
  ];
  assert.equal(cellsOf({ attempts, started_at: 1500, ended_at: 1500 })['duration_ms'], '500');
  const dead = { state: 'dead', tries: 2, attempts, ended_at: 9000 };
  assert.equal(cellsOf(dead)['duration_ms'], '500', 'not the wait for a deadline');
  assert.equal(cellsOf(dead)['failed_tries'], '2');
  assert.equal(cellsOf({ state: 'cancelled', ended_at: 9000 })['duration_ms'], '', 'it has never run');
});

test('the text of a result is not repeated; model and payload have columns', () => {
  const results = ['a', { text: 'a' }, { text: 'a', exit_code: 0 }, { text: 'a', n: 1 }, [1]];
  assert.deepEqual(
    results.map((result) => cellsOf({ result })['result']),
    ['', '', '', '"{""n"":1}"', '[1]'],
  );
  assert.equal(cellsOf({ model: 'm' })['model'], 'm');
  assert.equal('payload' in cellsOf({ payload: 5 }), false);
  assert.equal(cellsOf({ payload: 5 }, true)['payload'], '5');
});
