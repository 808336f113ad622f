/** `orchd config check|show` */
import { flagOf, oneOf, textOf, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { DATA_OPTIONS, JSON_OPTION, usageOf } from '../options.ts';
import type { Finding } from '../start-checks.ts';

const WORDS = ['check', 'show'] as const;

const options = {
  ...DATA_OPTIONS,
  host: { type: 'string', value: 'HOST', help: 'as for `orchd up`' },
  port: { type: 'string', value: 'N', help: 'as for `orchd up`' },
  ...JSON_OPTION,
} as const;

export const config: Command = {
  usage: usageOf({
    call: 'config check [FILE] | config show [FILE] [OPTIONS]',
    about: `check reads the configuration as \`orchd up\` does, and prints everything that is wrong with it, each with its place; it
also checks what a start would refuse: an address for others without a token, folders and files that cannot be used.
show prints every setting as YAML, with where it was set if that is not the default: the file, a variable or an option.
Secrets are not shown. FILE is the same as --config FILE.
Exit code: 0 valid, 1 something is wrong with it, 2 wrong command line or no such file.`,
    options,
    examples: [
      'orchd config check config.yaml',
      'orchd config check --host 0.0.0.0 --data /var/lib/orchd --json',
      'orchd config show > resolved.yaml',
    ],
  }),
  options,
  words: WORDS,
  async run({ values, positionals: [word, file, more] }, terminal) {
    if (word === undefined) throw new UsageError(`the action is missing: ${WORDS.join(', ')}.`);
    const action = oneOf(word, 'the action', WORDS);
    if (more !== undefined) throw new UsageError(`unexpected argument "${more}".`);
    if (file !== undefined && textOf(values, 'config') !== undefined)
      throw new UsageError('the file is given twice: as FILE and with --config.');
    const port = wholeOf(values, 'port', 0, 65_535);
    const args = { positionals: [], values: file === undefined ? values : { ...values, config: file } };
    return action === 'check' ? check(args, port, terminal) : show(args, port, terminal);
  },
};

async function check(args: CliArguments, port: number | undefined, terminal: Terminal): Promise<number> {
  const { readCheckedConfig, dataFolder } = await import('../settings.ts');
  const { label, checked, warnings } = await readCheckedConfig(args);
  const findings: Finding[] = [
    ...checked.faults.map(({ position, field, message }) => ({
      is: 'fault' as const,
      path: field,
      position,
      message,
    })),
    ...warnings.map((message) => ({ is: 'warning' as const, path: '', position: '', message })),
  ];
  if (checked.found) {
    const { config: resolved, origins } = checked.found;
    const { startFindings } = await import('../start-checks.ts');
    const host = textOf(args.values, 'host') ?? resolved.server.host;
    const data = dataFolder(args, resolved);
    const found = await startFindings({ config: resolved, data, host, port: port ?? resolved.server.port });
    // A list has one place, whichever of its entries is meant.
    const positionOf = (path: string): string => origins.get(path.replace(/\[.*$/, '')) ?? '';
    findings.push(...found.map((each) => ({ ...each, position: positionOf(each.path) })));
  }
  const faults = findings.filter(({ is }) => is === 'fault').length;
  if (flagOf(args.values, 'json')) printJson(findings, faults, terminal);
  else printText(label, findings, faults, terminal);
  return faults === 0 ? EXIT.ok : EXIT.problems;
}

function printJson(findings: readonly Finding[], faults: number, terminal: Terminal): void {
  for (const { is, ...rest } of findings) terminal.printData(JSON.stringify({ type: is, ...rest }));
  const warnings = findings.length - faults;
  terminal.printData(JSON.stringify({ type: 'summary', ok: faults === 0, faults, warnings }));
}

function printText(label: string, findings: readonly Finding[], faults: number, terminal: Terminal): void {
  for (const { is, position, path, message } of findings) {
    const text = [is, position, path, message].filter((part) => part !== '').join(': ');
    terminal.print(text);
  }
  const count = faults === 1 ? 'one fault' : `${faults} faults`;
  terminal.print(faults === 0 ? `${label}: orchd up can start with it` : `${label}: ${count}`);
}

async function show(args: CliArguments, port: number | undefined, terminal: Terminal): Promise<number> {
  const { readCheckedConfig, namedFolder } = await import('../settings.ts');
  const { failOnIssues } = await import('../../config/issues.ts');
  const { configYaml, withoutSecrets } = await import('../../config/show.ts');
  const { checked, warnings } = await readCheckedConfig(args);
  failOnIssues(checked.faults);
  if (!checked.found) return EXIT.problems;
  for (const warning of warnings) terminal.complain(`orchd: ${warning}`);
  const { config: resolved, raw } = checked.found;
  const origins = new Map(checked.found.origins);
  const host = textOf(args.values, 'host');
  if (host !== undefined || port !== undefined) {
    raw.orchestrator.bind_addr = addressText(host ?? resolved.server.host, port ?? resolved.server.port);
    const names = [host === undefined ? '' : '--host', port === undefined ? '' : '--port'];
    origins.set('orchestrator.bind_addr', names.filter(Boolean).join(', '));
  }
  const named = namedFolder(args);
  if (named !== undefined) {
    raw.orchestrator.state.checkpoint_dir = named;
    const isOption = textOf(args.values, 'data') !== undefined;
    origins.set('orchestrator.state.checkpoint_dir', isOption ? '--data' : 'ORCHD_DATA');
  }
  if (!flagOf(args.values, 'json')) terminal.print(configYaml(raw, origins));
  else
    terminal.printData(JSON.stringify({ config: withoutSecrets(raw), origins: Object.fromEntries(origins) }));
  return EXIT.ok;
}

/** An IPv6 address stands in brackets. */
const addressText = (host: string, port: number): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;
