/** A brain that dies between the two halves of a move to the archive: `session-archive-main.ts DATA`. */
import { createOrchestrator } from '../../src/index.ts';
import { armCrashpoints } from '../../src/kit/crashpoint.ts';
import { placed } from './flow-kit.ts';
import { ARCHIVING, provider, useSession } from './session-archive-kit.ts';

armCrashpoints((name) => {
  if (name === 'sessions:after-archive') process.kill(process.pid, 'SIGKILL');
});
const data = process.argv[2] as string;
const brain = await createOrchestrator(placed({ data, backends: [provider()], config: ARCHIVING }));
await brain.sessions.setBudget('default', 's', 100_000);
await useSession(brain, 's');
