/**
 * The first result in ten lines: a brain inside this program, a function as its backend, a folder as its memory.
 * Run it twice: the folder is there the second time. From a checkout: node examples/embedded.ts [folder]
 */
import { createOrchestrator } from '../src/index.ts'; // 'orchd' where it is installed

const orchd = await createOrchestrator({
  data: process.argv[2] ?? 'data/embedded',
  backends: [
    { name: 'local', slots: 2, types: { greet: async ({ name }: { name: string }) => `Hello, ${name}!` } },
  ],
});
const { job_id } = await orchd.submit({ type: 'greet', payload: { name: 'Ada' } });
console.log((await orchd.wait(job_id)).result);
await orchd.stop();
