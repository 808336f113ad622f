/**
 * The kinds of backend that can be configured, by their key in the `backends` section of the configuration. To add a
 * kind: a folder beside these with a descriptor, one line here, its key in config/backends.ts and config.example.yaml,
 * and a harness for the conformance suite in test/backends/.
 */
import type { ResolvedConfig } from '../config/resolve.ts';
import type { BackendKind, ConfiguredBackend } from './descriptor.ts';
import { commands, demo } from './local/command/descriptor.ts';

/** Upstreams are no backends of their own: a source brings a backend for each (adapters/upstreams). */
type BackendsConfig = Omit<ResolvedConfig['backends'], 'upstreams'>;

export const BACKEND_KINDS: { readonly [K in keyof BackendsConfig]: BackendKind<BackendsConfig[K]> } = {
  commands,
  demo,
};

export function configuredBackends({ backends }: ResolvedConfig): readonly ConfiguredBackend[] {
  // With an upstream there are real models: the demo model would only answer in place of them.
  const isUsed = (key: keyof BackendsConfig): boolean => key !== 'demo' || backends.upstreams.length === 0;
  const keys = Object.keys(BACKEND_KINDS) as (keyof BackendsConfig)[];
  return keys.filter(isUsed).flatMap((key) => BACKEND_KINDS[key](backends[key] as never));
}
