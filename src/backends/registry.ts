/**
 * The kinds of backend that can be configured, by their key in the `backends` section of the configuration. To add a
 * kind: a folder beside these with a descriptor, one line here, its key in config/backends.ts and config.example.yaml,
 * and a harness for the conformance suite in test/backends/.
 */
import type { ResolvedConfig } from '../config/resolve.ts';
import type { BackendKind, ConfiguredBackend } from './descriptor.ts';
import { commands, demo } from './local/command/descriptor.ts';

type BackendsConfig = ResolvedConfig['backends'];

export const BACKEND_KINDS: { readonly [K in keyof BackendsConfig]: BackendKind<BackendsConfig[K]> } = {
  commands,
  demo,
};

export const configuredBackends = ({ backends }: ResolvedConfig): readonly ConfiguredBackend[] =>
  (Object.keys(BACKEND_KINDS) as (keyof BackendsConfig)[]).flatMap((key) =>
    BACKEND_KINDS[key](backends[key] as never),
  );
