/** The drivers by their names in the configuration. What a driver can do is in its `abilities`. */
import type { Env } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { DriverName, SeatOrder } from '../../../model/gateway-wire.ts';
import type { Address } from '../../../wire/outbound.ts';
import type { Driver } from '../driver.ts';
import { AnthropicBatchesDriver } from './anthropic-batches.ts';
import { AnthropicMessagesDriver, anthropicHeaders } from './anthropic-messages.ts';
import { BrowserDriver } from './browser/browser-driver.ts';
import { checkPackage } from './browser/chromium-package.ts';
import { Profile, profileFolder } from './browser/profile.ts';
import { GeminiDriver, geminiHeaders } from './gemini.ts';
import { OpenAiChatDriver } from './openai-chat.ts';
import { OpenAiResponsesDriver } from './openai-responses.ts';
import { ProviderApi, type ProviderTimes } from './provider-api.ts';

export interface DriverParts {
  readonly env: Env;
  /** The folder of the gateway, below which profiles of browsers are. */
  readonly folder: string;
  /** Differences from PROVIDER_TIMES. */
  readonly times?: Partial<ProviderTimes>;
  /** Resolves a host name; the system's resolver by default. */
  readonly resolve?: (host: string) => Promise<readonly Address[]>;
}

type Headers = Record<string, string>;

interface DriverEntry {
  headers(key: string | undefined): Headers;
  make(api: ProviderApi, keep: boolean): Driver;
}

const bearer = (key: string | undefined): Headers =>
  key === undefined ? {} : { authorization: `Bearer ${key}` };

const API_DRIVERS: Readonly<Record<Exclude<DriverName, 'browser'>, DriverEntry>> = {
  'openai-chat': { headers: bearer, make: (api, keep) => new OpenAiChatDriver(api, keep) },
  'openai-responses': { headers: bearer, make: (api, keep) => new OpenAiResponsesDriver(api, keep) },
  'anthropic-messages': { headers: anthropicHeaders, make: (api) => new AnthropicMessagesDriver(api) },
  'anthropic-batches': { headers: anthropicHeaders, make: (api) => new AnthropicBatchesDriver(api) },
  'gemini-stream': { headers: geminiHeaders, make: (api) => new GeminiDriver(api, true) },
  'gemini-generate': { headers: geminiHeaders, make: (api) => new GeminiDriver(api, false) },
};

/** Makes the driver of a seat. Throws CONFIG_INVALID where the URL cannot be called, or a package is missing. */
export function driverOf(order: SeatOrder, parts: DriverParts): Driver {
  const { driver, url, key, slots, keep } = order;
  if (driver === 'browser') return browserDriver(order, parts);
  const { env, times, resolve } = parts;
  const entry = API_DRIVERS[driver];
  const api = new ProviderApi({ env, url, key, headers: entry.headers(key), slots, times, resolve });
  return entry.make(api, keep);
}

function browserDriver({ name, url, page }: SeatOrder, { env, folder }: DriverParts): Driver {
  if (!page || !URL.canParse(url))
    throw new OrchdError('CONFIG_INVALID', 'a seat of the driver "browser" needs "url" and "selectors"');
  checkPackage();
  const profile = new Profile(env, profileFolder(folder, name, page.profile));
  return new BrowserDriver({ env, url, page, profile, path: process.env['PATH'] ?? '' });
}
