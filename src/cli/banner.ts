/** What `orchd up` says to the person who started it. */
import { resolve } from 'node:path';

export interface BannerParts {
  readonly version: string;
  readonly url: string;
  readonly data: string;
  readonly needsToken: boolean;
  readonly hasBackends: boolean;
  /** How the command is called here: `orchd`, or through npm in a checkout. */
  readonly command: string;
  /** Whether a client finds it without being told where. */
  readonly isDefaultUrl: boolean;
}

export function bannerText(parts: BannerParts): string {
  const { version, url, data, needsToken, hasBackends, command, isDefaultUrl } = parts;
  const where = isDefaultUrl ? '' : ` --url ${url}`;
  const bearer = needsToken ? ` -H "authorization: Bearer $ORCHD_TOKEN"` : '';
  const curl = `curl ${url}/v2/tasks${bearer} -H 'content-type: application/json' -d '{"prompt": "Hello"}'`;
  return [
    `orchd ${version} listens on ${url}`,
    `data: ${resolve(data)}`,
    ...(hasBackends ? [] : ['no backend is configured: jobs will wait until there is one']),
    ...(needsToken ? ['callers need a token: set ORCHD_TOKEN'] : []),
    `try:  ${command} submit --follow${where} "Hello"`,
    `or:   ${curl}`,
    'press Ctrl-C to stop',
  ].join('\n');
}

/** In a checkout there is no `orchd` on the path. */
export const ownCommand = (main: string | undefined): string =>
  main?.endsWith('.ts') ? 'npm run orchd --' : 'orchd';
