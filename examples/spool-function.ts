/** Runs a function for each job of a spool, and drops one: `node examples/spool-function.ts [DIR]` */
import { functionHandler, SpoolAgent, SpoolManager, SpoolWatchdog } from '../src/daemons/spool/index.ts';
import {
  Actor,
  createLogger,
  findJob,
  makeSpool,
  openSpool,
  readJobFile,
  realEnv,
  realHost,
  spoolAt,
  submitJob,
} from '../src/spool/index.ts';

const env = realEnv();
const folder = process.argv[2] ?? 'data/spool';
const logger = createLogger({ write: (line) => void process.stderr.write(line), now: () => Date.now() });
const options = { env, host: realHost(() => Date.now()), logger, folder };
await makeSpool(spoolAt(options));
const spool = await openSpool(options);

const handler = functionHandler((prompt) => ({ length: JSON.stringify(prompt).length }));
const daemons = [
  new SpoolWatchdog({ env, spool, intervalMs: 5000 }),
  new SpoolManager({
    env,
    spool,
    intervalMs: 1000,
    backoff: { baseDelayMs: 5000, maxDelayMs: 60_000, jitter: 0.3 },
  }),
  new SpoolAgent({ env, spool, handler, slots: 4, stopGraceMs: 10_000 }),
];
for (const daemon of daemons) await daemon.start();

const name = `example-${env.random.hex(4)}`;
const person = await Actor.open(spool, 'person');
await submitJob(person, { name, prompt: { ask: 'How long is this?' } });
await person.close();

for (;;) {
  const job = await findJob(spool, name);
  if (job?.place === 'succeeded') {
    console.log(await readJobFile(spool, job, 'result'));
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
}
for (const daemon of daemons.reverse()) await daemon.stop();
