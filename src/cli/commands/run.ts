/** `orchd run NAME [TEXT]` */
import type { OrchdClient, RunRequest } from '../../client/client.ts';
import { flagOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { followRun } from '../follow-run.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { standardInput } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { reportRun, startRun } from '../start-run.ts';
import { jobFieldsOf, PRIORITIES } from '../submit-request.ts';
import { cancelText } from './cancel.ts';

const options = {
  session: {
    type: 'string',
    value: 'SESSION',
    help: 'the session; jobs and runs of a session run one at a time, in order',
  },
  priority: {
    type: 'string',
    choices: PRIORITIES,
    help: 'by default interactive; interactive jobs run first',
  },
  'deadline-ms': {
    type: 'string',
    value: 'N',
    help: 'the run ends this long after its start, even if it has no answer',
  },
  tag: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'a tag by which the run can be found' },
  detach: { type: 'boolean', help: 'print the id of the run, and do not wait for its end' },
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print only the result, as one JSON object' },
} as const;

export const runAgent: Command = {
  usage: usageOf({
    call: 'run NAME [TEXT] [OPTIONS]',
    about: `Starts a run of the agent NAME with TEXT, and prints what its model says while it says it; standard error says what happens
besides. If TEXT is -, or is left out and standard input is a pipe or a file, it is read from there. After a lost
connection, or a restart of the server, it goes on. Ctrl-C cancels the run; with --priority batch it leaves it running.
Exit code: 0 if the run has answered, 1 if it has not.`,
    options,
    examples: [
      'orchd run librarian "What does the manual say about backups?"',
      'orchd run librarian --json < question.txt | jq -r .reply',
      'ID=$(orchd run librarian "Summarise the folder." --priority batch --detach)',
    ],
  }),
  options,
  async run(args, terminal) {
    const { name, input } = await requestOf(args);
    const { priority, session_id, deadline_ms, tags } = jobFieldsOf(args);
    const request: RunRequest = {
      input,
      ...(priority && { priority }),
      ...(session_id !== undefined && { session_id }),
      ...(deadline_ms !== undefined && { deadline_ms }),
      ...(tags && { tags }),
    };
    const client = connect(args);
    const asJson = flagOf(args.values, 'json');
    if (flagOf(args.values, 'detach')) {
      const started = await startRun(client, name, request, terminal);
      if (asJson) terminal.printData(JSON.stringify(started));
      else terminal.print(started.run_id);
      return EXIT.ok;
    }
    // Signals are handled from before the start: after a Ctrl-C during it, the run is still cancelled or reported.
    const interrupt = new Interrupt();
    const { run_id: runId } = await startRun(client, name, request, terminal);
    const { signal } = interrupt;
    const end = signal.aborted ? undefined : await followRun(client, runId, { signal, terminal, asJson });
    if (!end) await leave(client, runId, request.priority === 'batch', terminal);
    interrupt.remove();
    if (!end) return EXIT_INTERRUPTED;
    if (asJson) terminal.printData(JSON.stringify(end));
    return reportRun(end, terminal);
  },
};

async function requestOf({ positionals }: CliArguments): Promise<{ name: string; input: string }> {
  const [name, text, more] = positionals;
  if (name === undefined) throw new UsageError('the name of the agent is missing.');
  if (more !== undefined)
    throw new UsageError(`only one text can be given: put it in quotes ("${text} ${more} …").`);
  const isRead = text === '-' || (text === undefined && !process.stdin.isTTY);
  const input = isRead ? await standardInput() : text;
  if (input === undefined) throw new UsageError('the text is missing.');
  if (input.trim() === '') throw new UsageError(`${isRead ? 'standard input' : 'the text'} is empty.`);
  return { name, input };
}

async function leave(client: OrchdClient, id: string, isBatch: boolean, terminal: Terminal): Promise<void> {
  if (!isBatch) terminal.complain(`\norchd: ${cancelText(await client.cancel(id))}`);
  else
    terminal.complain(
      `\norchd: ${id} keeps running; \`orchd show ${id}\` shows it, \`orchd cancel ${id}\` cancels it.`,
    );
}
