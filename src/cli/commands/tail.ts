/** `orchd tail ID` */
import type { TaskEvent } from '../../client/client.ts';
import { RUN_TYPE } from '../../model/run-jobs.ts';
import { flagOf, jobId, singlePositional, textOf } from '../arguments.ts';
import { type Command, UsageError } from '../command.ts';
import { follow, reportEnd } from '../follow.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { forJob } from '../job-id.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';

const options = {
  after: { type: 'string', value: 'EVENT', help: 'print only the events after this event id, such as 1.7' },
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line: id, event, data' },
} as const;

export const tail: Command = {
  usage: usageOf({
    call: 'tail ID [--after EVENT] [OPTIONS]',
    about: `Prints every event of a job with its id, its name and its data. After a lost connection it reconnects and continues.
Exit code: 0 if the job succeeded, 1 if it did not.`,
    options,
    examples: ['orchd tail $ID', 'orchd tail $ID --after 1.7 --json'],
  }),
  options,
  async run(args, terminal) {
    const text = jobId(singlePositional(args.positionals, 'job id'));
    const after = eventId(textOf(args.values, 'after'));
    const client = connect(args);
    const asJson = flagOf(args.values, 'json');
    // Reports an unknown job or an unreachable server at once: follow() would reconnect again and again.
    const job = await forJob(client, text, (whole) => client.get(whole));
    const { job_id: id } = job;
    const interrupt = new Interrupt();
    const { signal } = interrupt;
    const ended = await follow(client, id, { signal, terminal, after }, (event) =>
      asJson ? terminal.printData(JSON.stringify(event)) : terminal.print(eventText(event)),
    );
    interrupt.remove();
    if (ended) return reportEnd(ended, terminal);
    if (job.priority === 'interactive' && job.type !== RUN_TYPE) {
      terminal.complain(
        `orchd: ${id} is interactive: it is cancelled soon, unless a run has asked for it or somebody else follows it`,
      );
    }
    return EXIT_INTERRUPTED;
  },
};

function eventId(text: string | undefined): string | undefined {
  if (text === undefined || /^\d{1,9}\.(\d{1,15}|end)$/.test(text)) return text;
  throw new UsageError(`"${text}" is not an event id; event ids look like 1.7.`);
}

export function eventText({ id, event, data }: TaskEvent): string {
  return `${oneLine(id ?? '-').padEnd(7)} ${oneLine(event).padEnd(8)} ${detailOf(event, data)}`.trimEnd();
}

function detailOf(event: string, data: unknown): string {
  if (event === 'token') return JSON.stringify((data as { t: string }).t);
  return oneLine(JSON.stringify(data));
}
