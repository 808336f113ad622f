/** Attempts that run twice, and what executors keep of them. */
import type { PlantedBug } from './catchers.ts';

export const ATTEMPTS_BUGS: readonly PlantedBug[] = [
  {
    name: 'a token is used again after a redrive',
    file: 'src/model/moves.ts',
    find: '    redrivenAt: at,\n',
    replace: '    redrivenAt: at,\n    attempt: 0,\n',
    catcher: 'order',
    says: /goes back to attempt 0/,
  },
  {
    name: 'a purge forgets the attempt numbers it let go',
    file: 'src/core/engine/brain.ts',
    find: '{ ...known, attemptFloor }',
    replace: '{ ...known }',
    catcher: 'order',
    says: /small:1 was offered after its acknowledgement/,
  },
  {
    name: 'a token that has run another body is taken for the same execution',
    file: 'src/core/ports/backend.ts',
    find: '  known !== undefined && offered !== undefined && known !== offered;\n',
    replace: '  known !== undefined && offered !== undefined && false;\n',
    catcher: 'copies',
    says: /a backup of the same opening is told by its tokens/,
  },
  {
    name: 'the executor may drop a result before its end is durable',
    file: 'src/runtime/event-readers.ts',
    find: "        if (end.is === 'ended') this.#ended(reading, end.outcome);\n",
    replace: `        if (end.is === 'ended') void backend.ack(token, who());
        if (end.is === 'ended') this.#ended(reading, end.outcome);
`,
    catcher: 'order',
    says: /the release of small:1 comes before/,
  },
  {
    name: 'what an executor does not know is tried again without a tombstone',
    file: 'src/core/attempts/progress.ts',
    find: "      return kill(turn, entry, 'lost');\n",
    replace: `      abandonAttempt(turn, entry, 'absent');
      if (!isTerminal(entry.job.state)) turn.put('job', entry.uid, unclaim(entry.job), 'absent');
      return;
`,
    catcher: 'longSimulation',
    says: /started after .* had succeeded|while/,
  },
  {
    name: 'what executors keep expires by the wall clock',
    file: 'src/kit/lived-time.ts',
    find: '    return this.#before + this.#env.clock.monotonic() - this.#openedAt;\n',
    replace: '    return this.#env.clock.now();\n',
    catcher: 'commands',
    says: /an unacknowledged end is kept for a week of lived time/,
  },
  {
    name: 'a caller is told that a leader was fenced',
    file: 'src/api/forward.ts',
    find: '    if (MAYBE_EXECUTED.has(code)) throw leaderLost();\n',
    replace: '',
    catcher: 'forward',
    says: /a leader that ends with FENCED during a request/,
  },
  {
    name: 'paid work with an unknown outcome is run again by itself',
    file: 'src/core/attempts/progress.ts',
    find: "  return backend && !backend.info.paid ? 'retry' : 'hold';\n",
    replace: "  return backend ? 'retry' : 'hold';\n",
    catcher: 'simulation',
    says: /started by itself although .* was paid/,
  },
];
