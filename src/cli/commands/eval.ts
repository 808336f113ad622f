/** `orchd eval DIR [--agent FILE]` */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunCost } from '../../agents/replay/run-cost.ts';
import type { SavedRecords } from '../../agents/replay/saved-run.ts';
import type { AgentConfig } from '../../config/agents.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ReplayView } from '../../model/http/replays.ts';
import { flagOf, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { fileText, yamlFile } from '../json-argument.ts';
import { JSON_OPTION, usageOf } from '../options.ts';
import { moneyText } from '../text/money.ts';
import { oneLine } from '../text/screen.ts';
import { reportText } from './replay.ts';

const options = {
  agent: {
    type: 'string',
    value: 'FILE',
    help: 'the changed agent: one agent, or a configuration with `agents`; by default each run has its own',
  },
  ...JSON_OPTION,
} as const;

export const evaluate: Command = {
  usage: usageOf({
    call: 'eval DIR… [OPTIONS]',
    about: `Replays saved runs (\`orchd replay RUN --save FILE\`) with a changed agent: which of them would differ, at which step, and what
it would cost to run those for real, by what they have used. DIR is a folder with files *.json, or such a file. Nothing is
called, and no server is needed.
Exit code: 0 if no run differs, 1 if one does, 2 if a file cannot be used.`,
    options,
    examples: ['orchd eval runs --agent librarian.yaml', 'orchd eval runs --json | jq .difference.text'],
  }),
  options,
  async run(args, terminal) {
    if (args.positionals.length === 0) throw new UsageError('the folder with the saved runs is missing.');
    const files = (await Promise.all(args.positionals.map(filesIn))).flat();
    if (files.length === 0) throw new UsageError('there are no saved runs: no file ends in .json.');
    return evaluateFiles(files, args, terminal);
  },
};

async function filesIn(path: string): Promise<readonly string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = await readdir(path);
    return names
      .filter((name) => name.endsWith('.json'))
      .sort()
      .map((name) => join(path, name));
  } catch (error) {
    throw new UsageError(`"${path}" cannot be read (${(error as NodeJS.ErrnoException).code}).`);
  }
}

interface Evaluated extends ReplayView {
  readonly file: string;
  readonly cost: RunCost;
  readonly currency?: string | undefined;
}

async function evaluateFiles(
  files: readonly string[],
  args: CliArguments,
  terminal: Terminal,
): Promise<number> {
  const file = textOf(args.values, 'agent');
  const agents = file === undefined ? undefined : await agentsOf(file);
  const asJson = flagOf(args.values, 'json');
  const done: Evaluated[] = [];
  for (const each of files) {
    const found = await evaluated(each, agents);
    if ('fault' in found) {
      terminal.complain(`orchd: ${oneLine(each)}: ${oneLine(found.fault)}`);
      continue;
    }
    done.push(found);
    if (asJson) terminal.printData(JSON.stringify(found));
    else terminal.print(`${oneLine(each)}  ${reportText(found)}`);
  }
  if (!asJson) terminal.print(await summary(done));
  if (done.length < files.length) return EXIT.unusable;
  return done.every(({ equal }) => equal) ? EXIT.ok : EXIT.problems;
}

async function agentsOf(file: string): Promise<readonly AgentConfig[]> {
  const { value, label } = await yamlFile(file);
  const { agentsIn } = await import('../../agents/replay/given-agent.ts');
  try {
    return agentsIn(value);
  } catch (error) {
    if (error instanceof OrchdError) throw new UsageError(`${label} has no usable agent: ${error.message}.`);
    throw error;
  }
}

async function evaluated(
  file: string,
  agents: readonly AgentConfig[] | undefined,
): Promise<Evaluated | { readonly fault: string }> {
  const { savedRecords } = await import('../../agents/replay/saved-run.ts');
  let records: SavedRecords;
  try {
    records = savedRecords(JSON.parse(await fileText(file)));
  } catch (error) {
    const why = error instanceof OrchdError ? `it is no saved run: ${error.message}` : 'it is no JSON';
    return { fault: error instanceof UsageError ? error.message : why };
  }
  try {
    return await compared(file, records, agents);
  } catch (error) {
    // A file that was changed by hand may break any step.
    const why =
      error instanceof OrchdError ? error.message : 'its calls do not have the form of calls of a run';
    return { fault: `it cannot be replayed: ${why}` };
  }
}

async function compared(
  file: string,
  records: SavedRecords,
  agents: readonly AgentConfig[] | undefined,
): Promise<Evaluated | { readonly fault: string }> {
  const { givenAgent } = await import('../../agents/replay/given-agent.ts');
  const { replayReport } = await import('../../agents/replay/replay-report.ts');
  const { costOf } = await import('../../agents/replay/run-cost.ts');
  const { realEnv } = await import('../../kit/env/real.ts');
  const against = agents ? givenAgent(agents, records, realEnv()) : ({ is: 'recorded' } as const);
  if (!against) return { fault: `the file of agents has none named "${records.head.record.agent.name}"` };
  const report = await replayReport(records, against);
  return { file, ...report, cost: costOf(records.all), currency: records.currency };
}

async function summary(done: readonly Evaluated[]): Promise<string> {
  const { costSum, NO_COST } = await import('../../agents/replay/run-cost.ts');
  const differ = done.filter(({ equal }) => !equal);
  const counts = `${done.length} ${done.length === 1 ? 'run' : 'runs'}: ${done.length - differ.length} equal, ${differ.length} different.`;
  if (differ.length === 0) return counts;
  const { calls, tokens, amount, unpriced, uncounted } = differ
    .map(({ cost }) => cost)
    .reduce(costSum, NO_COST);
  const currencies = new Set(differ.map(({ currency }) => currency));
  const [currency] = currencies.size === 1 ? currencies : [];
  const money = calls === unpriced ? 'no price is known' : moneyText(amount, currency ?? '');
  const more = [
    ...(unpriced > 0 && unpriced < calls ? [`${unpriced} calls without a price`] : []),
    ...(uncounted > 0 ? [`${uncounted} calls without a count of tokens`] : []),
  ];
  const note = more.length > 0 ? ` (${more.join(', ')})` : '';
  return `${counts} To run those that differ for real, by what they have used: ${calls} calls of models, ${tokens} tokens, ${money}${note}.`;
}
