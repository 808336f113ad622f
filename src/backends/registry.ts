/**
 * Every kind of backend that a configuration can ask for, by its key in the section `backends`. A new one is a folder
 * beside these with a descriptor, one line here, its key in config/backends.ts and in config.example.yaml, and a
 * harness for the conformance suite in test/backends/.
 */
import type { ResolvedConfig } from '../config/resolve.ts';
import type { BackendKind, ConfiguredBackend } from './descriptor.ts';
import { commands, demo } from './local/command/descriptor.ts';

type Asked = ResolvedConfig['backends'];

export const BACKEND_KINDS: { readonly [K in keyof Asked]: BackendKind<Asked[K]> } = { commands, demo };

export const configuredBackends = ({ backends }: ResolvedConfig): readonly ConfiguredBackend[] =>
  (Object.keys(BACKEND_KINDS) as (keyof Asked)[]).flatMap((key) =>
    BACKEND_KINDS[key](backends[key] as never),
  );
