/**
 * Bubblewrap (`bwrap`) around a command: it sees the programs of the system, its own folder and nothing else, and its
 * processes end with it.
 *
 * B1  Of the file system it sees /usr and the folders that belong to it, a few files of /etc, and what the configuration
 *     lists, all read-only; its own folder, which it may write; and a /tmp and a /dev of its own.
 * B2  It has namespaces of its own for processes, users, IPC and, unless it may use it, the network; and no capabilities.
 * B3  All of its processes end when its wrapper ends, whatever they have done to hide (docs/decisions/0025 says what
 *     a command without bubblewrap can do).
 */

export interface Confinement {
  /** The folder that it may write, and where it runs. */
  readonly folder: string;
  /** What it may read beside the programs of the system. */
  readonly read: readonly string[];
  readonly network: boolean;
}

/** Whether commands can be confined on this machine. */
export type Sandbox =
  | { readonly works: true }
  /** `why` is for the people who run the machine. */
  | { readonly works: false; readonly why: string };

export const BWRAP = 'bwrap';

const SYSTEM = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];
/** Files of /etc that programs need to start, to know users and time zones and to check certificates. None is a secret. */
const SETTINGS = [
  'alternatives',
  'ca-certificates',
  'group',
  'ld.so.cache',
  'localtime',
  'nsswitch.conf',
  'passwd',
  'ssl/certs',
  'ssl/openssl.cnf',
];
const NETWORK_SETTINGS = ['hosts', 'resolv.conf', 'services'];

/** The words before the command. */
export function bwrapWords({ folder, read, network }: Confinement): string[] {
  const settings = [...SETTINGS, ...(network ? NETWORK_SETTINGS : [])].map((name) => `/etc/${name}`);
  return [
    BWRAP,
    '--unshare-all',
    ...(network ? ['--share-net'] : []),
    '--die-with-parent',
    ...['--cap-drop', 'ALL'],
    ...['--ro-bind', '/usr', '/usr'],
    ...[...SYSTEM, ...settings].flatMap((path) => ['--ro-bind-try', path, path]),
    ...['--proc', '/proc'],
    ...['--dev', '/dev'],
    // After it, because what is listed may be below it.
    ...['--tmpfs', '/tmp'],
    ...read.flatMap((path) => ['--ro-bind', path, path]),
    ...['--bind', folder, folder],
    ...['--chdir', folder],
    '--',
  ];
}
