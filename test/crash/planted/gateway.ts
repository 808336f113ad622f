/** The gateway, its seats and their providers. */
import type { PlantedBug } from './catchers.ts';

const EXECUTION = 'src/daemons/execution';

export const GATEWAY_BUGS: readonly PlantedBug[] = [
  {
    name: 'the gateway calls the provider before its intent is durable',
    file: `${EXECUTION}/executions.ts`,
    find: '      if (durable !== undefined) await durable;\n',
    replace: '      if (durable !== undefined) durable.catch(() => undefined);\n',
    catcher: 'gatewaySimulation',
    says: /was billed again after/,
  },
  {
    name: 'the gateway tells a result before it is durable',
    file: `${EXECUTION}/executions.ts`,
    find: '    if (memory.journal) await memory.journal.ended(execution, ending.outcome);\n',
    replace: '    if (memory.journal) void memory.journal.ended(execution, ending.outcome);\n',
    catcher: 'gatewaySimulation',
    says: /had ended as .*, and is now/,
  },
  {
    name: 'a gateway that restarts has another registry',
    file: `${EXECUTION}/kept-folder.ts`,
    find: "  const isNew = state.registry === '';\n",
    replace: '  const isNew = true;\n',
    catcher: 'gatewaySimulation',
    says: /everything ends once faults stop; left: [^\n]*"state":"stale"/,
  },
  {
    name: 'a busy seat spends a try',
    file: 'src/core/attempts/progress.ts',
    find: "  if (why === 'timeout') return endBadly(",
    replace: "  if (why === 'timeout' || why === 'busy') return endBadly(",
    catcher: 'gatewaySeats',
    says: /✖ \[FANO-6\] a busy seat is no try of the job/,
  },
  {
    name: 'the queue of the gateway takes a reserved seat',
    file: 'src/daemons/gateway/seat.ts',
    find: '    return standing.length > 0 ? ',
    replace: '    return false ? ',
    catcher: 'gatewayCore',
    says: /✖ \[FANO-6\] a refused caller has the next turn/,
  },
  {
    name: 'the key of a seat follows a redirect',
    file: 'src/wire/exchange.ts',
    find: '    if (status >= 300 && status < 400 && !returnsRedirects)\n',
    replace: `    const { location } = response.headers;
    if (location !== undefined)
      void fetch(location, { headers: request.getHeaders() as never }).finally(() =>
        this.#fail('redirect', 'it was followed'),
      );
    else if (status >= 300 && status < 400 && !returnsRedirects)
`,
    catcher: 'providers',
    says: /✖ openai-chat: a redirect is not followed, and takes the key nowhere/,
  },
];
