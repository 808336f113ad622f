/**
 * A brain with paid commands, to be cut off: submits one job after the other until it dies. Arguments: the folder of
 * data and commands, the ledger, the file of acknowledgements, a name for the ids of its jobs. Without a name it submits
 * nothing, and prints how every acknowledged job has ended.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createOrchestrator } from '../../src/app/library.ts';
import { CommandBackend } from '../../src/backends/local/command/command.ts';
import { realEnv } from '../../src/kit/env/real.ts';

const [folder = '', ledger = '', acks = '', name = ''] = process.argv.slice(2);

/**
 * Writes itself down before and after its work, outside of the disk that loses power. `read` runs inside the shell: a
 * `cat` of its own could be killed alone, and the shell would go on without an id.
 */
const SCRIPT =
  'read -r id; echo "start $id" >> "$LEDGER"; sleep 0.0$((RANDOM % 9))2; echo "end $id" >> "$LEDGER"';

const backend = new CommandBackend(realEnv(), {
  name: 'paid',
  folder: join(folder, 'commands'),
  slots: 3,
  paid: true,
  types: { work: { argv: ['bash', '-c', SCRIPT], env: { LEDGER: ledger } } },
});
const brain = await createOrchestrator({ data: join(folder, 'data'), backends: [backend] });
process.stdout.write('up\n');
// What the last life left open is settled as a careful person would: nothing is run again.
const settled = setInterval(async () => {
  const { jobs } = await brain.list({ state: 'stale' });
  for (const { job_id } of jobs) await brain.resolve(job_id, { as: 'failed' }).catch(() => undefined);
}, 50);
settled.unref();
for (let n = 0; name !== ''; n++) {
  const id = `${name}-${n}`;
  await brain.submit({ job_id: id, type: 'work', payload: id, max_tries: 5 });
  fs.appendFileSync(acks, `${id}\n`);
  await Promise.race([brain.wait(id), sleep(60)]);
}
const acknowledged = fs.readFileSync(acks, 'utf8').split('\n').slice(0, -1);
const ends = await Promise.all(
  acknowledged.map(async (id) => {
    const { state } = await brain.wait(id).catch((error: Error) => ({ state: error.message }));
    return [id, state];
  }),
);
process.stdout.write(JSON.stringify(ends));
await brain.stop();
