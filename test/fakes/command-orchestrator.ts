/**
 * A whole orchestrator to be killed: submits one job to a command backend and says which events it heard.
 * Arguments: the data folder, the backend's options as JSON, the job id.
 */
import { createOrchestrator } from '../../src/app/library.ts';
import { CommandBackend } from '../../src/backends/local/command/command.ts';
import { realEnv } from '../../src/kit/env/real.ts';

const [data = '', options = '', jobId = ''] = process.argv.slice(2);
const backends = [new CommandBackend(realEnv(), JSON.parse(options))];
const orchestrator = await createOrchestrator({ data, backends });
await orchestrator.submit({ job_id: jobId, type: 'work', payload: {} });
for await (const { id } of orchestrator.events(jobId)) console.log(`event ${id}`);
