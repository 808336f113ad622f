/** A brain that archives a session and deletes it, and dies at a crash point: `session-archive-main.ts DATA CRASHPOINT`. */
import { createOrchestrator } from '../../src/index.ts';
import { armCrashpoints } from '../../src/kit/crashpoint.ts';
import { placed } from './flow-kit.ts';
import { ARCHIVING, archivedSession, provider, useSession } from './session-archive-kit.ts';

const [, , data = '', crashAt = ''] = process.argv;
armCrashpoints((name) => {
  if (name === crashAt) process.kill(process.pid, 'SIGKILL');
});
const brain = await createOrchestrator(placed({ data, backends: [provider()], config: ARCHIVING }));
await brain.sessions.setBudget('default', 's', 100_000);
await useSession(brain, 's');
await archivedSession(brain, 's');
await brain.sessions.remove('default', 's', 'me');
