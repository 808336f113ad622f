/** The records of the tools of MCP servers: reads, and commands that resolve once their change is durable. */
import type { McpDefinition, McpPinRecord, McpTaskRecord } from '../model/mcp-records.ts';
import { Commands } from './command-order.ts';
import { whenDurable } from './when-durable.ts';

export class McpRecords extends Commands {
  /** The definitions that may be called. */
  pins(): Promise<readonly McpPinRecord[]> {
    return this.#whenDurable([...this.engine.state.tables.mcp_pin.values()]);
  }

  /** Records the definitions of tools that were never seen before. */
  async seen(definitions: readonly McpDefinition[]): Promise<void> {
    await this.order({ type: 'mcp-seen', definitions });
  }

  allow(definition: McpDefinition, by: string): Promise<McpPinRecord> {
    return this.order({ type: 'mcp-allow', definition, by });
  }

  /** The task that a server runs for an attempt; undefined where it runs none. */
  task(token: string): Promise<McpTaskRecord | undefined> {
    return this.#whenDurable(this.engine.state.tables.mcp_task.get(token));
  }

  async taskBegun(token: string, task: Omit<McpTaskRecord, 'v' | 'at'>): Promise<void> {
    await this.order({ type: 'mcp-task', token, task });
  }

  async taskEnded(token: string): Promise<void> {
    await this.order({ type: 'mcp-task-ended', token });
  }

  #whenDurable<T>(value: T): Promise<T> {
    return whenDurable({ engine: this.engine, loop: this.loop }, value);
  }
}
