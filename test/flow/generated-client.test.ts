/** A client that a public generator makes from /openapi.json: it compiles, and works. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { generate } from 'openapi-typescript-codegen';
import { httpBrain } from '../fakes/http-brain.ts';
import { tempFolder } from './flow-kit.ts';

const run = promisify(execFile);
const tsc = join(import.meta.dirname, '../../node_modules/.bin/tsc');

/** Every type is checked here: that the generated ones exist, and have the fields. */
const PROGRAM = `
import { ApiError, JobsService, OpenAPI, type Job, type SubmittedTask } from './client';
OpenAPI.BASE = process.argv[2]!;
async function main(): Promise<void> {
  const done = (await JobsService.submitJob({ prompt: 'hello', priority: 'interactive' })) as SubmittedTask;
  const events: string = await JobsService.followJob(done.job_id) as unknown as string;
  const job = (await JobsService.getJob(done.job_id)) as Job;
  const waiting = (await JobsService.submitJob({ type: 'nobody', payload: [1], wait_for_backend: true })) as SubmittedTask;
  const cancelled = (await JobsService.cancelJob(waiting.job_id)) as Job;
  const missing = await JobsService.getJob('missing').catch((error: ApiError) => error.status);
  const said = { ended: events.includes('event: end'), state: job.state, result: job.result, cancelled: cancelled.state, missing };
  console.log(JSON.stringify(said));
}
void main();
`;

test('a client generated from the OpenAPI page compiles, and submits, follows and cancels', async (t) => {
  const brain = await httpBrain({
    backends: [{ name: 'b', slots: 1, types: { inference: async () => 'hi' } }],
  });
  t.after(() => brain.stop());
  const folder = tempFolder(t);
  const input = (await (await fetch(`${brain.url}/openapi.json`)).json()) as Record<string, unknown>;
  await generate({ input, output: join(folder, 'client'), httpClient: 'fetch', useUnionTypes: true });
  writeFileSync(join(folder, 'main.ts'), PROGRAM);
  const flags = [
    '--strict',
    '--skipLibCheck',
    '--module',
    'commonjs',
    '--target',
    'es2022',
    '--types',
    'node',
  ];
  const types = [
    '--typeRoots',
    join(import.meta.dirname, '../../node_modules/@types'),
    '--lib',
    'es2022,dom',
  ];
  await run(tsc, [...flags, ...types, '--outDir', join(folder, 'out'), join(folder, 'main.ts')], {
    cwd: folder,
  }).catch((error: { stdout: string }) => assert.fail(error.stdout));
  const { stdout } = await run(process.execPath, [join(folder, 'out', 'main.js'), brain.url]);
  assert.deepEqual(JSON.parse(stdout), {
    ended: true,
    state: 'succeeded',
    result: 'hi',
    cancelled: 'cancelled',
    missing: 404,
  });
});
