/** Jobs that wait for an instant, for other jobs or for their batch. */
import type { PlantedBug } from './catchers.ts';

const PROCESS_ENDS = `export function processEnds(turn: EngineTurn): void {
  for (let ends = turn.takeEnds(); ends.length > 0; ends = turn.takeEnds())
    for (const end of ends) processEnd(turn, end);
}

function processEnd(turn: EngineTurn, end: EndFact): void {
  switch (end.is) {
    case 'waits': {
      if (end.entry.job.wait?.budget) limitTree(turn, end.entry);
      const admitted = admitChildren(turn, end.entry, end.children);
`;

/** The jobs below a waiting one are admitted in the next turn. */
const LATE_CHILDREN = `const late: { turn: EngineTurn; end: { entry: never; children: never } }[] = [];

export function processEnds(turn: EngineTurn): void {
  for (const each of late.filter((one) => one.turn !== turn)) {
    late.splice(late.indexOf(each), 1);
    admitChildren(turn, each.end.entry, each.end.children);
  }
  for (let ends = turn.takeEnds(); ends.length > 0; ends = turn.takeEnds())
    for (const end of ends) processEnd(turn, end);
}

function processEnd(turn: EngineTurn, end: EndFact): void {
  switch (end.is) {
    case 'waits': {
      late.push({ turn, end: end as never });
      const admitted: never[] = [];
`;

export const WAITS_BUGS: readonly PlantedBug[] = [
  {
    name: 'a step of the wall clock is believed at once',
    file: 'src/runtime/brain-clock.ts',
    find: 'const STAND_MS = 60_000;\n',
    replace: 'const STAND_MS = 0;\n',
    catcher: 'clock',
    says: /that is taken back within a minute changes nothing/,
  },
  {
    name: 'brain time is stepped, and the waits of the engine are not',
    file: 'src/core/engine/brain.ts',
    find: "  'clock-step': (turn, { byMs }) => moveInstants(turn, byMs),\n",
    replace: "  'clock-step': () => undefined,\n",
    catcher: 'simulation',
    says: /everything ends once faults stop/,
  },
  {
    name: 'a bad end releases the jobs that wait for it',
    file: 'src/core/attempts/dependencies.ts',
    find: '  if (awaited.end !== undefined && !isMet(entry.ask, awaited.end)) {',
    replace: '  if (awaited.end === undefined && !isMet(entry.ask, awaited.end)) {',
    catcher: 'simulation',
    says: /was claimed while job-\d+, which it waits for, is (?:dead|cancelled)/,
  },
  {
    name: 'a redriven job stays counted as dead in its batch',
    file: 'src/core/engine/jobs.ts',
    find: '    noteRedriven(turn, entry);\n',
    replace: '',
    catcher: 'simulation',
    says: /batch batch-\d counts/,
  },
  {
    name: 'a wake is lost at a restart',
    file: 'src/core/state/end-waiters.ts',
    find: '    this.#noteWakeable(entry);\n  }\n\n  /** Removes',
    replace: '  }\n\n  /** Removes',
    catcher: 'killedWakes',
    says: /✖ on (?:journal|mariadb): killed anywhere, a job whose jobs have ended is woken/,
  },
  {
    name: 'jobs that wait are not found again after a restart',
    file: 'src/core/state/state.ts',
    find: '    this.#noteWaiting(entry, undefined);\n',
    replace: "    if (entry.job.state !== 'waiting') this.#noteWaiting(entry, undefined);\n",
    catcher: 'agentSimulation',
    says: /is held back by the \d+ live jobs that it names/,
  },
  {
    name: 'the jobs of a wait are not admitted in the commit of the wait',
    file: 'src/core/engine/ends.ts',
    find: PROCESS_ENDS,
    replace: LATE_CHILDREN,
    catcher: 'agentSimulation',
    says: /is admitted in the commit in which [\w.-]+ waits for it/,
  },
  {
    name: 'what a waiting job keeps is collected as garbage',
    file: 'src/model/kept-body.ts',
    find: 'result ?? wait?.state;',
    replace: 'result ?? (wait?.woken ? wait.state : undefined);',
    catcher: 'bodies',
    says: /✖ what a waiting job keeps counts until it keeps something else/,
  },
  {
    name: 'what a job keeps that waits for hours is removed by a purge',
    file: 'src/model/kept-body.ts',
    find: 'result ?? wait?.state;',
    replace: 'result ?? (wait?.woken ? wait.state : undefined);',
    catcher: 'order',
    says: /what is kept of "sleeper" is missing/,
  },
];
