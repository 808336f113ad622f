/**
 * Runs orchd inside this program: a function is the backend, and a folder stores the jobs, so that they survive a
 * restart of the program. From a checkout: node examples/embedded.ts [folder]
 */
import { createOrchestrator } from '../src/index.ts'; // in your own program: 'orchd'

const orchd = await createOrchestrator({
  data: process.argv[2] ?? 'data/embedded',
  backends: [
    { name: 'local', slots: 2, types: { greet: async ({ name }: { name: string }) => `Hello, ${name}!` } },
  ],
});
const { job_id } = await orchd.submit({ type: 'greet', payload: { name: 'Ada' } });
console.log((await orchd.wait(job_id)).result);
await orchd.stop();
