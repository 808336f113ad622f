/** The calls of the client that are about the server and not about jobs: routes, schedules, governance, prices, modules. */
import type { GovernanceView, ModeRequest } from '../model/http/governance.ts';
import type { McpServerList, McpServerView } from '../model/http/mcp-servers.ts';
import type { ResumedSeat } from '../model/http/meta.ts';
import type { ModuleView } from '../model/http/modules.ts';
import type { PricesView, WrittenPrice } from '../model/http/prices.ts';
import type { ReloadReport } from '../model/http/reload.ts';
import type { RouteView } from '../model/http/routes.ts';
import type { SchedulePage, ScheduleView, WrittenSchedule } from '../model/http/schedules.ts';

export abstract class OperatorCalls {
  protected abstract call<T>(method: string, path: string, body?: unknown): Promise<T>;

  async routes(): Promise<readonly RouteView[]> {
    return (await this.call<{ routes: RouteView[] }>('GET', '/v2/catalog/routes')).routes;
  }

  setRoute(name: string, steps: RouteView['steps']): Promise<RouteView> {
    return this.call('PUT', `/v2/catalog/routes/${encodeURIComponent(name)}`, { steps });
  }

  async deleteRoute(name: string): Promise<void> {
    await this.call('DELETE', `/v2/catalog/routes/${encodeURIComponent(name)}`);
  }

  /** A page of schedules in the order of their names, from the one after `after` on. */
  schedules(after?: string): Promise<SchedulePage> {
    const query = after === undefined ? '' : `?after=${encodeURIComponent(after)}`;
    return this.call('GET', `/v2/schedules${query}`);
  }

  schedule(name: string): Promise<ScheduleView> {
    return this.call('GET', `/v2/schedules/${encodeURIComponent(name)}`);
  }

  setSchedule(name: string, schedule: WrittenSchedule): Promise<ScheduleView> {
    return this.call('PUT', `/v2/schedules/${encodeURIComponent(name)}`, schedule);
  }

  async deleteSchedule(name: string): Promise<void> {
    await this.call('DELETE', `/v2/schedules/${encodeURIComponent(name)}`);
  }

  mcpServers(): Promise<McpServerList> {
    return this.call('GET', '/v2/tools');
  }

  /** Allows the definition with this hash, which the server offers by now. */
  allowMcpTool(server: string, tool: string, hash: string): Promise<McpServerView> {
    return this.call('POST', `/v2/tools/${encodeURIComponent(server)}/allow`, { tool, hash });
  }

  /** The mode of governance, what it allows, and the last broken rules. */
  governance(): Promise<GovernanceView> {
    return this.call('GET', '/v2/governance');
  }

  setMode(request: ModeRequest): Promise<GovernanceView> {
    return this.call('PUT', '/v2/governance/mode', request);
  }

  prices(): Promise<PricesView> {
    return this.call('GET', '/v2/prices');
  }

  /** Replaces all prices. Attempts that are recorded already keep theirs. */
  setPrices(prices: readonly WrittenPrice[]): Promise<PricesView> {
    return this.call('PUT', '/v2/prices', { prices });
  }

  /** Gives jobs again to a seat that was paused because its provider billed more than its bound. */
  resumeSeat(name: string): Promise<ResumedSeat> {
    return this.call('POST', `/v2/seats/${encodeURIComponent(name)}/resume`);
  }

  async modules(): Promise<readonly ModuleView[]> {
    return (await this.call<{ modules: ModuleView[] }>('GET', '/v2/modules')).modules;
  }

  /** Scans a module at once; returns its state as it was before. */
  scanModule(name: string): Promise<ModuleView> {
    return this.call('POST', `/v2/modules/${encodeURIComponent(name)}/scan`);
  }

  /** Has the server read its configuration file again; throws CONFIG_INVALID if that is refused, and nothing has changed. */
  reload(): Promise<ReloadReport> {
    return this.call('POST', '/control/reload');
  }
}
