/** The folder of a provisioner: locked by one at a time, with its id and the processes that it has started. */
import type { Env } from '../../kit/env/env.ts';
import { signalMarked } from '../../kit/process/marked.ts';
import { isObject, readRecord, writeRecord } from '../../kit/record-file.ts';
import { OrchdError } from '../../model/errors.ts';
import {
  isSlotRecord,
  layoutOf,
  nameMark,
  type ProvisionLayout,
  recordPath,
  type SlotRecord,
} from './layout.ts';

const ID_BYTES = 4;

export class ProvisionFolder {
  readonly layout: ProvisionLayout;
  /** In the names of its consumers and in the marks of its processes. */
  readonly registry: string;
  readonly #release: () => Promise<void>;

  private constructor(layout: ProvisionLayout, registry: string, release: () => Promise<void>) {
    this.layout = layout;
    this.registry = registry;
    this.#release = release;
  }

  static async open(env: Env, path: string): Promise<ProvisionFolder> {
    const layout = layoutOf(path);
    for (const folder of [layout.folder, layout.processes, layout.logs, layout.consumers])
      await env.disk.makeFolder(folder);
    const lock = await env.disk.lock(layout.lock);
    if (!lock) throw new OrchdError('STORE_LOCKED', `another \`orchd provision\` has the folder ${path}`);
    try {
      return new ProvisionFolder(layout, await registryOf(env, layout), () => lock.release());
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** What an earlier provisioner has started. A record that cannot be read cannot be managed: its processes are killed. */
  async records(env: Env, onLost: (name: string) => void): Promise<readonly SlotRecord[]> {
    const { layout, registry } = this;
    const found: SlotRecord[] = [];
    for (const file of await env.disk.list(layout.processes)) {
      if (!file.endsWith('.json')) continue;
      const name = file.slice(0, -'.json'.length);
      const record = await readRecord(env.disk, recordPath(layout, name), isObject);
      if (record && isSlotRecord(record, name)) {
        found.push(record);
        continue;
      }
      signalMarked(nameMark(registry, name), undefined, 'SIGKILL');
      onLost(name);
      await env.disk.remove(recordPath(layout, name));
    }
    return found;
  }

  close(): Promise<void> {
    return this.#release();
  }
}

async function registryOf(env: Env, { registry }: ProvisionLayout): Promise<string> {
  const known: { readonly id?: unknown } | undefined = await readRecord(env.disk, registry, isObject);
  if (typeof known?.id === 'string' && known.id !== '') return known.id;
  const id = env.random.hex(ID_BYTES);
  await writeRecord(env, registry, { v: 1, id });
  return id;
}
