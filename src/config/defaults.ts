/** Phase 3: keys that neither the file nor the environment set get the default their schema states. */
import { CONFIG_LEAVES, setAt, valueAt } from './leaves.ts';

export function applyDefaults(root: Record<string, unknown>): void {
  for (const { path, schema } of CONFIG_LEAVES) {
    if (valueAt(root, path) !== undefined) continue;
    setAt(root, path, structuredClone((schema as { default?: unknown }).default));
  }
}
