/** `orchd tail ID` */
import type { TaskEvent } from '../../client/client.ts';
import { type Command, UsageError } from '../command.ts';
import { follow, tellEnd } from '../follow.ts';
import { flagOf, jobId, onlyWord, textOf } from '../given.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';

const options = {
  after: { type: 'string', value: 'EVENT', says: 'only what came after this event id, such as 1.7' },
  ...SERVER_OPTIONS,
  json: { type: 'boolean', says: 'one JSON object per line: id, event, data' },
} as const;

export const tail: Command = {
  usage: usageOf({
    call: 'tail ID [--after EVENT] [OPTIONS]',
    about: `Prints every event of a job: its id, its name, what it says. A lost connection is taken up again.
Exit code: 0 when the job succeeded, 1 when it did not.`,
    options,
    examples: ['orchd tail $ID', 'orchd tail $ID --after 1.7 --json'],
  }),
  options,
  async run(given, terminal) {
    const id = jobId(onlyWord(given.positionals, 'job'));
    const after = eventId(textOf(given.values, 'after'));
    const client = connect(given);
    const asJson = flagOf(given.values, 'json');
    // Fails at once where following would go on trying.
    const job = await client.get(id);
    const interrupt = new Interrupt();
    const { signal } = interrupt;
    const ended = await follow(client, id, { signal, terminal, after }, (event) =>
      terminal.print(asJson ? JSON.stringify(event) : eventText(event)),
    );
    interrupt.forget();
    if (ended) return tellEnd(ended, terminal);
    if (job.priority === 'interactive') {
      terminal.complain(
        `orchd: ${id} is interactive: unless somebody else follows it, it ends with its followers`,
      );
    }
    return EXIT_INTERRUPTED;
  },
};

function eventId(text: string | undefined): string | undefined {
  if (text === undefined || /^\d{1,9}\.(\d{1,15}|end)$/.test(text)) return text;
  throw new UsageError(`"${text}" is no event id; those look like 1.7.`);
}

export function eventText({ id, event, data }: TaskEvent): string {
  return `${(id ?? '-').padEnd(7)} ${event.padEnd(8)} ${detailOf(event, data)}`.trimEnd();
}

function detailOf(event: string, data: unknown): string {
  if (event === 'token') return JSON.stringify((data as { t: string }).t);
  return oneLine(JSON.stringify(data));
}
