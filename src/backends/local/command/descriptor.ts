/** The two kinds of backend that run commands: `backends.commands` and the built-in `backends.demo`. */
import type { CommandConfig } from '../../../config/backends.ts';
import type { ResolvedConfig } from '../../../config/resolve.ts';
import type { BackendKind } from '../../descriptor.ts';
import { CommandBackend } from './command.ts';
import { demoBackendOptions } from './demo.ts';

type BackendsConfig = ResolvedConfig['backends'];

export const commands: BackendKind<BackendsConfig['commands']> = (configured) =>
  configured.map((command) => ({
    name: command.name,
    programs: Object.fromEntries(
      Object.entries((command as CommandConfig).types).map(([type, { argv }]) => [type, argv[0]]),
    ),
    make: ({ env, ...settings }) => new CommandBackend(env, { ...(command as CommandConfig), ...settings }),
  }));

export const demo: BackendKind<BackendsConfig['demo']> = (isEnabled) =>
  isEnabled
    ? [
        {
          name: 'demo',
          exampleModel: 'demo',
          make: ({ env, folder, ...settings }) =>
            new CommandBackend(env, { ...demoBackendOptions(folder), ...settings }),
        },
      ]
    : [];
