/**
 * Reads the configuration again while the server runs, and takes over what can be changed.
 *
 * L1  Everything is checked as at a start before anything is changed. One fault anywhere refuses the whole.
 * L2  What needs a restart keeps its old value, and is named; the old and the new values together are checked too.
 * L3  One reload is under way at a time. Those who ask meanwhile share the next one, which reads the file after they asked.
 */
import type { Reloading } from '../api/control.ts';
import { type ConfigChanges, configChanges } from '../config/changes.ts';
import { failOnIssues } from '../config/issues.ts';
import { gatewayIssues, type LoadedConfig } from '../config/load.ts';
import { type ResolvedConfig, resolveConfig } from '../config/resolve.ts';
import { Service } from '../kit/service.ts';
import { SharedCall } from '../kit/shared-call.ts';
import { OrchdError, toOrchdError } from '../model/errors.ts';
import type { ReloadReport, SectionChanges } from '../model/http/reload.ts';
import type { ServerParts } from './parts.ts';
import { otherServers } from './server-settings.ts';

/** A brain that leads. */
export interface ReloadTarget {
  /** Throws where `reload` cannot be done, and changes nothing. */
  checkReload(config: ResolvedConfig): void;
  /** Changes what is listed in `changes`. A failure of the store leaves everything as it was. */
  reload(config: ResolvedConfig, changes: readonly SectionChanges[]): Promise<void>;
}

const MAX_REPORTS = 10;
const NO_CHANGES = { changes: [], restart_needed: [] } as const;

export class Reloader extends Service implements Reloading {
  readonly #parts: Pick<ServerParts, 'options' | 'env' | 'host'>;
  readonly #target: () => Promise<ReloadTarget | undefined>;
  readonly #call = new SharedCall(() => this.#run());
  /** Who has asked for the next reload. */
  #askedBy = new Set<string>();
  #running: LoadedConfig | undefined;
  #keys: ReadonlyMap<string, string> = new Map();
  #underWay: Promise<unknown> = Promise.resolve();
  readonly #reports: ReloadReport[] = [];

  /** `target` returns the brain if this node leads. */
  constructor(
    parts: Pick<ServerParts, 'options' | 'env' | 'host'>,
    target: () => Promise<ReloadTarget | undefined>,
  ) {
    super();
    this.#parts = parts;
    this.#target = target;
    this.#running = parts.options.configFile?.loaded;
  }

  protected async onStart(): Promise<void> {
    if (this.#running) this.#keys = this.#keysOf(this.#running.config);
  }

  /** What is under way ends first: the brain that it changes is stopped afterwards. */
  protected async onStop(): Promise<void> {
    await this.#underWay;
  }

  /** The configuration in use. */
  get config(): ResolvedConfig {
    return this.#running?.config ?? this.#parts.options.config;
  }

  /** The last ones, the latest first. */
  get reports(): readonly ReloadReport[] {
    return this.#reports;
  }

  /** Throws CONFIG_INVALID or NO_CONFIG_FILE; then nothing has changed. */
  async reload(by: string): Promise<ReloadReport> {
    if (!this.running) throw new OrchdError('SHUTTING_DOWN');
    this.#askedBy.add(by);
    return this.#call.ask();
  }

  #run(): Promise<ReloadReport> {
    const report = this.#reload();
    this.#underWay = report.catch(() => undefined);
    return report;
  }

  async #reload(): Promise<ReloadReport> {
    const by = [...this.#askedBy].sort().join(', ');
    this.#askedBy = new Set();
    const at = this.#parts.env.clock.now();
    const target = await this.#target();
    const facts = { at, by, leads: target !== undefined };
    try {
      const changes = await this.#apply(target);
      const outcome = changes.changes.length > 0 ? 'applied' : 'unchanged';
      const listed = { changes: changes.changes, restart_needed: changes.restartNeeded };
      return this.#keep({ ...facts, outcome, ...listed });
    } catch (error) {
      const { code, message, details } = toOrchdError(error);
      const { field, position } = details;
      const place = { ...(field !== undefined && { field }), ...(position !== undefined && { position }) };
      this.#keep({ ...facts, outcome: 'refused', ...NO_CHANGES, error: { code, message, ...place } });
      throw error;
    }
  }

  async #apply(target: ReloadTarget | undefined): Promise<ConfigChanges> {
    const { configFile } = this.#parts.options;
    const before = this.#running;
    if (!configFile || !before)
      throw new OrchdError('NO_CONFIG_FILE', 'the server was started without a configuration file');
    const next = await configFile.read();
    await configFile.check(next);
    const keys = this.#keysOf(next.config);
    const changes = configChanges(before.raw, next.raw, {
      rekeyedSeats: changedKeys(this.#keys, keys),
      usesPoolUrl: before.config.pool.url !== undefined,
      setsPoolUrl: next.config.pool.url !== undefined,
    });
    const raw = changes.running;
    const origins = originsAfter(before, next);
    const merged: LoadedConfig = { raw, origins, config: resolveConfig(raw, (path) => origins.has(path)) };
    if (changes.restartNeeded.length > 0) {
      checkTogether(merged);
      await configFile.check(merged);
    }
    target?.checkReload(merged.config);
    if (changes.changes.length > 0) await target?.reload(merged.config, changes.changes);
    this.#running = merged;
    this.#keys = keys;
    return changes;
  }

  /** Keys of the seats by their names: those in files may change while the configuration does not. */
  #keysOf(config: ResolvedConfig): ReadonlyMap<string, string> {
    const { options, host } = this.#parts;
    const { gateway } = otherServers(config, { host, port: options.port ?? config.server.port });
    if (gateway?.is !== 'own') return new Map();
    return new Map(gateway.seats.map(({ name, key }) => [name, key?.reveal() ?? '']));
  }

  #keep(report: ReloadReport): ReloadReport {
    const { logger } = this.#parts.options;
    const { by, outcome, changes, restart_needed, error } = report;
    this.#reports.unshift(report);
    this.#reports.splice(MAX_REPORTS);
    const reason = [...changes.map(sentenceOf), ...restart_needed.map((key) => `${key}: needs a restart`)];
    if (error) {
      const { code, message, position } = error;
      logger.error('the configuration was not reloaded: nothing has changed', {
        caller: by,
        error_code: code,
        reason: message,
        position,
      });
    } else logger.info('the configuration was reloaded', { caller: by, outcome, reason: reason.join('; ') });
    return report;
  }
}

const sentenceOf = ({ section, added, changed, removed }: SectionChanges): string =>
  Object.entries({ added, changed, removed })
    .filter(([, names]) => names.length > 0)
    .map(([what, names]) => `${section}: ${what} ${names.join(', ')}`)
    .join('; ');

/** Where the values in use were set: `pool.url` has an effect by being set, and keeps it until a restart. */
function originsAfter(before: LoadedConfig, next: LoadedConfig): ReadonlyMap<string, string> {
  const origins = new Map(next.origins);
  const poolUrl = before.origins.get('pool.url');
  if (poolUrl === undefined) origins.delete('pool.url');
  else origins.set('pool.url', poolUrl);
  return origins;
}

/** L2. */
function checkTogether({ raw, origins }: LoadedConfig): void {
  failOnIssues(
    gatewayIssues(raw, origins).map(({ path, message }) => ({
      position: 'with the settings that need a restart',
      field: path.join('.').replaceAll('.[', '['),
      message,
    })),
  );
}

const changedKeys = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] =>
  [...after.keys()].filter((name) => before.has(name) && before.get(name) !== after.get(name));
