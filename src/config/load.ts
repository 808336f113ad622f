/**
 * Makes one frozen configuration from a text and the environment; reads no file and no process state itself.
 *
 *   phase 1  parse.ts        the YAML text becomes plain values
 *   phase 2  environment.ts  `ORCHD_` variables override keys of the file
 *   phase 3  defaults.ts     keys that are not set get their defaults
 *   phase 4  validate.ts     unknown keys and wrong values are refused
 *   phase 5  resolve.ts      the values get the names and units that the code uses
 */
import { remoteGatewayFaults } from './backends.ts';
import { applyDefaults } from './defaults.ts';
import { applyEnvironment } from './environment.ts';
import { gatesIssues } from './gates-issues.ts';
import { governanceIssues } from './governance-issues.ts';
import { failOnIssues, type Issue, type PlacedIssue } from './issues.ts';
import { CONFIG_LEAVES, isSection, valueAt } from './leaves.ts';
import { NO_FILE, type Parsed, parseConfig } from './parse.ts';
import { poolsIssues } from './pools-issues.ts';
import { type ResolvedConfig, resolveConfig } from './resolve.ts';
import type { RawConfig } from './schema.ts';
import { validateConfig } from './validate.ts';
import type { Environment } from './variables.ts';

export interface ConfigSource {
  /** The YAML text; without it the defaults and the environment make the configuration. */
  readonly text?: string | undefined;
  /** What the text is called in messages, usually its file name. */
  readonly label?: string;
  readonly env?: Environment;
  /** Told about variables that look like settings and are none. */
  readonly onWarning?: (sentence: string) => void;
}

/** A valid configuration with where its values come from. */
export interface LoadedConfig {
  readonly raw: RawConfig;
  readonly config: ResolvedConfig;
  /** Where a value was set, by its path `a.b.c`: `config.yaml:3:5`, or the name of a variable. Defaults are left out. */
  readonly origins: ReadonlyMap<string, string>;
}

/** A configuration with where its values come from, or everything that is wrong with it. */
export interface CheckedConfig {
  readonly faults: readonly PlacedIssue[];
  /** Present if there are no faults. */
  readonly found?: LoadedConfig;
}

export function checkConfig({
  text,
  label = 'config',
  env = {},
  onWarning = () => undefined,
}: ConfigSource = {}): CheckedConfig {
  const parsed = text === undefined ? NO_FILE : parseConfig(text, label);
  // Nothing below makes sense of a text that is not YAML: its keys would all seem to be missing.
  if (parsed.issues.length > 0) return { faults: parsed.issues };
  const root = copySections(parsed.root);
  const overrides = applyEnvironment(root, env);
  for (const warning of overrides.warnings) onWarning(warning);
  const origins = originsOf(root, parsed, overrides.setBy);
  applyDefaults(root);
  const validated = validateConfig(root);
  const issues = validated.ok ? contradictions(validated.config, origins) : validated.issues;
  if (!validated.ok || issues.length > 0)
    return { faults: issues.map((issue) => placed(issue, parsed, overrides.setBy)) };
  const config = resolveConfig(validated.config, (path) => origins.has(path));
  return { faults: [], found: { raw: validated.config, config, origins } };
}

/** Throws CONFIG_INVALID with every fault it found, one per line. */
export const loadConfig = (source: ConfigSource = {}): ResolvedConfig =>
  loadedFrom(checkConfig(source)).config;

/** Throws CONFIG_INVALID with every fault, one per line. */
export function loadedFrom({ faults, found }: CheckedConfig): LoadedConfig {
  failOnIssues(faults);
  if (!found) throw new Error('unreachable: faults were reported above');
  return found;
}

export const defaultConfig = (): ResolvedConfig => loadConfig();

const contradictions = (config: RawConfig, origins: ReadonlyMap<string, string>): Issue[] => [
  ...gatewayIssues(config, origins),
  ...governanceIssues(config.governance),
  ...gatesIssues(config.gates),
  ...poolsIssues(config.pools),
];

/** Seats without a prefix are those of one gateway: its own with the seats, or the one at pool.url. */
export function gatewayIssues(
  { gateway, backends, pool }: RawConfig,
  origins: ReadonlyMap<string, string>,
): Issue[] {
  const isUrlSet = origins.has('pool.url');
  const faults = remoteGatewayFaults(backends, isUrlSet ? pool.url : undefined);
  const issues = faults.map(({ path, message }): Issue => ({ path, message, at: 'value' }));
  if (gateway.seats.length === 0 || !isUrlSet) return issues;
  const message =
    'it names a gateway that runs already, and gateway.seats asks for one of our own: remove pool.url to run the seats here, or gateway.seats to use the other gateway; to use both, name the other one in backends.gateways instead';
  return [{ path: ['pool', 'url'], message, at: 'value' }, ...issues];
}

/** Call before the defaults are filled in. */
function originsOf(
  root: Record<string, unknown>,
  parsed: Parsed,
  setBy: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const origins = new Map<string, string>();
  for (const { path } of CONFIG_LEAVES) {
    const name = path.join('.');
    if (valueAt(root, path) !== undefined) origins.set(name, setBy.get(name) ?? parsed.locate(path, 'value'));
  }
  return origins;
}

function placed(issue: Issue, parsed: Parsed, setBy: ReadonlyMap<string, string>): PlacedIssue {
  const { path, at, message } = issue;
  // A variable sets a list as a whole, whatever in it the issue is about.
  const variable = path.map((_, last) => setBy.get(path.slice(0, last + 1).join('.'))).find(Boolean);
  const field = path.join('.').replaceAll('.[', '[');
  return { position: variable ?? parsed.locate(path, at), field, message };
}

/** A YAML alias makes two sections one object; each must be filled in by itself. */
function copySections(section: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(section);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, isSection(value) ? copySections(value) : value]),
  );
}
