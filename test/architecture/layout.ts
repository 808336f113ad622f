/**
 * The layout of src as data: the order of its folders, the order inside of core, and what of core the others may
 * import. The rules of this folder hold it; a picture can be drawn from LAYOUT.
 */

/** A folder may import itself and the folders before it; `app` composes, and only `cli` uses it. `index` is a file of src itself. */
export const FOLDER_ORDER: readonly string[] = [
  'model',
  'kit',
  'config',
  'wire',
  'spool',
  'consumer',
  'core',
  'relay',
  'runtime',
  'stores',
  'backends',
  'daemons',
  'agents',
  'adapters',
  'telemetry',
  'api',
  'client',
  'ai-sdk',
  'app',
  'cli',
  'index',
];

/** The same inside of core. `ports` holds what knows no other part of core: interfaces, settings, counters. */
export const CORE_ORDER: readonly string[] = [
  'ports',
  'money',
  'limits',
  'governance',
  'state',
  'queue',
  'scheduling',
  'attempts',
  'admission',
  'workers',
  'engine',
];

/** The layer of each file that lies in core itself; a folder of core is a layer by its name. */
export const CORE_FILES: Readonly<Record<string, string>> = {
  'settings.ts': 'ports',
  'restore.ts': 'state',
  'turn.ts': 'queue',
};

/** Files of core that every folder may import; the other files of core are for core and runtime alone. */
export const CORE_PUBLIC: readonly string[] = [
  'src/core/ports/backend.ts',
  'src/core/ports/doorbell.ts',
  'src/core/ports/keys.ts',
  'src/core/ports/leadership.ts',
  'src/core/ports/ledger.ts',
  'src/core/ports/sessions.ts',
  'src/core/ports/pools.ts',
  'src/core/ports/store.ts',
  'src/core/settings.ts',
];

export const mayImport = (order: readonly string[], from: string, to: string): boolean =>
  order.includes(to) && order.indexOf(to) <= order.indexOf(from);

export interface Edge {
  readonly from: string;
  readonly to: string;
}

/** Every import between two different layers that an order allows. */
export const allowedEdges = (order: readonly string[]): Edge[] =>
  order.flatMap((from) =>
    order.filter((to) => to !== from && mayImport(order, from, to)).map((to) => ({ from, to })),
  );

export const LAYOUT = {
  folders: { order: FOLDER_ORDER, edges: allowedEdges(FOLDER_ORDER) },
  core: { order: CORE_ORDER, edges: allowedEdges(CORE_ORDER), files: CORE_FILES, public: CORE_PUBLIC },
} as const;
