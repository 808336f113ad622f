/** `orchd replay RUN [--agent FILE | --current] [--save FILE]` */
import type { OrchdClient } from '../../client/client.ts';
import type { ReplayView } from '../../model/http/replays.ts';
import { flagOf, jobId, singlePositional, textOf } from '../arguments.ts';
import { type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { forJob } from '../job-id.ts';
import { yamlFile } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';

const options = {
  agent: {
    type: 'string',
    value: 'FILE',
    help: 'replay with the agent of this file: one agent, or a configuration with `agents`',
  },
  current: { type: 'boolean', help: 'replay with the agent as the server has it now' },
  save: { type: 'string', value: 'FILE', help: 'write the run to a file, for `orchd eval`; - prints it' },
  ...SERVER_OPTIONS,
} as const;

export const replay: Command = {
  usage: usageOf({
    call: 'replay RUN [OPTIONS]',
    about: `Runs the steps of a run of an agent again on what its calls returned, and compares what they ask for: every call of the model
with its messages, every call of a tool with its arguments, and the result. Nothing is called. Without options the agent is
that of the run as it began.
Exit code: 0 if everything is the same, 1 if something differs.`,
    options,
    examples: [
      'orchd replay $RUN',
      'orchd replay $RUN --agent librarian.yaml',
      'orchd replay $RUN --save runs/backups.json',
    ],
  }),
  options,
  async run(args, terminal) {
    const id = jobId(singlePositional(args.positionals, 'run'));
    const { values } = args;
    const [file, save] = [textOf(values, 'agent'), textOf(values, 'save')];
    const isCurrent = flagOf(values, 'current');
    if (file !== undefined && isCurrent) throw new UsageError('--agent and --current exclude each other.');
    const client = connect(args);
    if (save !== undefined) {
      if (file !== undefined || isCurrent)
        throw new UsageError('--save saves the run as it is: without an agent.');
      return saveRun(client, id, save, terminal);
    }
    const report = await forJob(client, id, (whole) =>
      file === undefined
        ? client.replayRun(whole, isCurrent ? 'current' : undefined)
        : replayHere(client, whole, file),
    );
    if (flagOf(values, 'json')) terminal.printData(JSON.stringify(report));
    else terminal.print(`${oneLine(report.run_id)}: ${reportText(report)}`);
    return report.equal ? EXIT.ok : EXIT.problems;
  },
};

export function reportText({ difference, steps, has_end: hasEnd }: Omit<ReplayView, 'run_id'>): string {
  if (difference) return `differs at ${difference.text}`;
  const end = hasEnd ? 'and the same end' : 'as far as the run has come';
  return `equal: ${steps} ${steps === 1 ? 'step' : 'steps'}, ${end}`;
}

async function saveRun(client: OrchdClient, id: string, file: string, terminal: Terminal): Promise<number> {
  const text = JSON.stringify(await forJob(client, id, (whole) => client.runRecord(whole)));
  if (file === '-') {
    terminal.printData(text);
    return EXIT.ok;
  }
  const { writeFile } = await import('node:fs/promises');
  try {
    // What was said in a run is for its owner alone.
    await writeFile(file, `${text}\n`, { mode: 0o600 });
  } catch (error) {
    throw new UsageError(`"${file}" cannot be written (${(error as NodeJS.ErrnoException).code}).`);
  }
  terminal.complain(`${oneLine(file)} has the run.`);
  return EXIT.ok;
}

/** The agent of a file is known here alone, with what its tools may reach: the run comes to it. */
async function replayHere(client: OrchdClient, id: string, file: string): Promise<ReplayView> {
  const { value } = await yamlFile(file);
  const { agentsIn, givenAgent } = await import('../../agents/replay/given-agent.ts');
  const { replayReport } = await import('../../agents/replay/replay-report.ts');
  const { savedRecords } = await import('../../agents/replay/saved-run.ts');
  const { realEnv } = await import('../../kit/env/real.ts');
  const agents = agentsIn(value);
  const records = savedRecords(await client.runRecord(id));
  const against = givenAgent(agents, records, realEnv());
  const { name } = records.head.record.agent;
  if (!against) throw new UsageError(`"${file}" has no agent "${name}".`);
  return replayReport(records, against);
}
