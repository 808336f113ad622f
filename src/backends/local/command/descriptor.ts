/** The two kinds of backend that run commands: `backends.commands` and the built-in `backends.demo`. */
import { resolve } from 'node:path';
import type { CommandConfig } from '../../../config/backends.ts';
import type { ResolvedConfig } from '../../../config/resolve.ts';
import type { BackendKind, ConfiguredBackend } from '../../descriptor.ts';
import { CommandBackend } from './command.ts';
import { demoBackendOptions } from './demo.ts';
import { layoutOf } from './layout.ts';
import { openLayout } from './open-layout.ts';
import type { CommandBackendOptions } from './options.ts';

type BackendsConfig = ResolvedConfig['backends'];

const openFolder: ConfiguredBackend['openFolder'] = ({ env, folder, isCopy }) =>
  openLayout(env, layoutOf(resolve(folder)), isCopy);

function optionsOf({
  max_output_bytes,
  keep_output_sec,
  types,
  ...same
}: CommandConfig): Omit<CommandBackendOptions, 'folder'> {
  return {
    ...same,
    types: Object.fromEntries(
      Object.entries(types).map(([type, { resume_argv: resumeArgv, ...rest }]) => [
        type,
        { ...rest, ...(resumeArgv && { resumeArgv }) },
      ]),
    ),
    ...(max_output_bytes === undefined ? {} : { maxOutputBytes: max_output_bytes }),
    ...(keep_output_sec === undefined ? {} : { keepAckedMs: keep_output_sec * 1000 }),
  };
}

export const commands: BackendKind<BackendsConfig['commands']> = (configured) =>
  configured.map((command) => ({
    name: command.name,
    programs: Object.fromEntries(
      Object.entries((command as CommandConfig).types).map(([type, { argv }]) => [type, argv[0]]),
    ),
    make: ({ env, ...settings }) =>
      new CommandBackend(env, { ...optionsOf(command as CommandConfig), ...settings }),
    openFolder,
  }));

export const demo: BackendKind<BackendsConfig['demo']> = (isEnabled) =>
  isEnabled
    ? [
        {
          name: 'demo',
          exampleModel: 'demo',
          make: ({ env, folder, ...settings }) =>
            new CommandBackend(env, { ...demoBackendOptions(folder), ...settings }),
          openFolder,
        },
      ]
    : [];
