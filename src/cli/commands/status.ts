/** `orchd status` */
import { flagOf, noPositionals } from '../arguments.ts';
import { type Command, EXIT, type Terminal } from '../command.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect, serverUrl } from '../remote.ts';
import { type Snapshot, SnapshotReader } from '../snapshot.ts';
import { statusText } from '../text/status-text.ts';
import { watchStatus } from '../watch-status.ts';

const options = {
  watch: { type: 'boolean', help: 'show it again whenever something changes, until Ctrl-C' },
  ...SERVER_OPTIONS,
  json: {
    type: 'boolean',
    help: 'print one JSON object (status, pools, dead); with --watch one line per change',
  },
} as const;

export const status: Command = {
  usage: usageOf({
    call: 'status [--watch] [OPTIONS]',
    about: `Shows the whole on one screen: the brain, the queue, what runs, backends, pools, models, limits that are near, and what
needs a decision. With --watch on a terminal it is redrawn in place every second; otherwise a block is printed per change.
Exit code: 0 if the brain is healthy, 1 if it is degraded or has failed.`,
    options,
    examples: ['orchd status', 'orchd status --watch', 'orchd status --json | jq .status.jobs.queued'],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const reader = new SnapshotReader(connect(args));
    const url = serverUrl(args);
    const asJson = flagOf(args.values, 'json');
    const snapshot = await reader.read();
    if (!flagOf(args.values, 'watch')) {
      if (asJson) terminal.printData(JSON.stringify(snapshot));
      else terminal.print(statusText(snapshot, { terminal, url }));
      return exitCodeOf(snapshot);
    }
    const interrupt = new Interrupt();
    await watchStatus(
      { first: snapshot, read: () => reader.read(), ...shownBy(terminal, url, asJson) },
      interrupt.signal,
    );
    interrupt.remove();
    return EXIT_INTERRUPTED;
  },
};

const exitCodeOf = ({ status: { status: health } }: Snapshot): number =>
  health === 'ok' ? EXIT.ok : EXIT.problems;

const shownBy = (terminal: Terminal, url: string, asJson: boolean) => ({ terminal, url, asJson });
