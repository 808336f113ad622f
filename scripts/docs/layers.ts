/** docs/architecture.md: the layers of src, drawn from the lists that the architecture test enforces. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { LAYOUT } from '../../test/architecture/layout.ts';

const root = join(import.meta.dirname, '..', '..');

/** What each folder of src holds. A folder of the layout that has no line here cannot be drawn. */
const FOLDERS: Readonly<Record<string, string>> = {
  model: 'records, states and moves, causes, the error catalogue, the schemas of requests and answers',
  kit: 'clock, timers, disk and processes behind one interface; services, logger, waiting, hashing',
  config: 'from a file and the environment to one checked, frozen configuration',
  wire: 'what every server and client shares: HTTP server, event streams, authentication, errors',
  spool: 'the protocol of jobs in folders',
  consumer: 'the client of programs that ask for work, for Node (`orchd/consumer`)',
  core: 'every decision: pure, without I/O and without waiting',
  relay: 'the events of running attempts, passed on to any number of followers',
  runtime: 'the shell around the engine: the loop, commits, effects, reads',
  stores: 'where records are kept: journal, MariaDB, memory; migration between them',
  backends: "the brain's side of everything that executes jobs",
  daemons: 'what runs outside of the brain: worker, executor of an upstream, gateway, pool manager',
  agents: 'agents as clients of admission',
  adapters:
    'what brings backends or work: upstreams, the gateway, modules that propose jobs, streams in Redis',
  telemetry: 'metrics and narration: subscribers of durable changes',
  api: 'the HTTP routes, by area',
  client: 'the TypeScript client, for programs, browsers and the command line',
  'ai-sdk': 'models of the AI SDK whose calls are jobs: a user of the client',
  app: 'the composition: library, server, node of a cluster',
  cli: 'the commands',
  index: 'what the package exports',
};

const CORE_LAYERS: Readonly<Record<string, string>> = {
  ports: 'the interfaces to stores, backends, pools and leadership; the settings',
  money: 'prices: which one applies, and what an attempt can cost at most',
  limits: 'the limiter: reserve, then settle',
  governance: 'rules about what agents may do',
  state: 'the records in memory with their indexes',
  queue: 'lanes, classes, flows, and the fleet of backends',
  scheduling: 'which job is next, and on which backend',
  attempts: 'what reports about attempts change; cancel, redrive, resolve',
  admission: 'whether a job is accepted: model, budget, limits, capacity',
  workers: 'which workers are started, drained and stopped',
  engine: 'the handlers of events, and the effects that are due',
};

const isEmpty = (folder: string): boolean =>
  !existsSync(join(root, 'src', folder)) && !existsSync(join(root, 'src', `${folder}.ts`));

const isEmptyInCore = (layer: string): boolean =>
  isEmpty(`core/${layer}`) && !Object.values(LAYOUT.core.files).includes(layer);

export function renderLayers(generated: string): string {
  const { folders, core } = LAYOUT;
  return `${[
    generated,
    '',
    '# Architecture',
    '',
    'The layers of `src`, from the lists in `test/architecture/layout.ts`. A folder may import itself and the folders',
    'below it, never one above it; type imports count too. `test/architecture.test.ts` reads every import and fails',
    'where one goes up. Decision [15](decisions/0015-the-core-has-an-order.md) says why the core has an order of its own.',
    '',
    ...diagram(folders.order, isEmpty),
    '',
    ...table('folder', folders.order, FOLDERS, isEmpty),
    '',
    '## Inside of core',
    '',
    'The same rule. A file that lies in `core` itself belongs to a layer too:',
    `${Object.entries(core.files)
      .map(([file, layer]) => `\`${file}\` to ${layer}`)
      .join(', ')}.`,
    '',
    ...diagram(core.order, isEmptyInCore),
    '',
    ...table('layer', core.order, CORE_LAYERS, isEmptyInCore),
    '',
    'Only `core` and `runtime` import all of `core`. Everybody else imports these files of it:',
    '',
    ...core.public.map((path) => `- \`${path}\``),
  ].join('\n')}\n`;
}

/** Drawn from the top: what is composed last comes first, and arrows point to what it may import. */
function diagram(order: readonly string[], empty: (layer: string) => boolean): string[] {
  const fromTheTop = order.toReversed();
  // Every layer may import all those below it; the arrows show the neighbours, the others follow from them.
  const arrows = fromTheTop.slice(1).map((to, at) => `  ${fromTheTop[at]} --> ${to}`);
  const planned = order.filter(empty).map((layer) => `  style ${layer} stroke-dasharray: 4`);
  return ['```mermaid', 'flowchart TB', ...arrows, ...planned, '```'];
}

function table(
  heading: string,
  order: readonly string[],
  meanings: Readonly<Record<string, string>>,
  empty: (layer: string) => boolean,
): string[] {
  const rows = order.toReversed().map((layer) => {
    const meaning = meanings[layer];
    if (meaning === undefined) throw new Error(`scripts/docs/layers.ts does not say what ${layer} holds`);
    return `| \`${layer}\` | ${meaning}${empty(layer) ? ' (nothing yet)' : ''} |`;
  });
  return [`| ${heading} | what it holds |`, '| --- | --- |', ...rows];
}
